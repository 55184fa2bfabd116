// Generated from server/api/openapi.yaml by "npm run types" in tests/contract. Do not edit.

export interface paths {
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The process answers; touches no database */
        get: operations["healthz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Database, disk and queue, each named */
        get: operations["readyz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/version": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Build, schema and limits */
        get: operations["version"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This description */
        get: operations["openapi"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Runs, newest first */
        get: operations["listRuns"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One run, with its configuration */
        get: operations["showRun"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run}/records": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A batch of records of one rank; answered after commit */
        post: operations["ingest"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run}/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Metric keys, as one rank reported them */
        get: operations["listMetrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run}/metrics/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One series, down-sampled or exact */
        get: operations["showSeries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run}/series": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Several series over one range */
        get: operations["listSeries"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run}/metrics.csv": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Every stored step of every rank and key */
        get: operations["exportMetrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run}/evals": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Validations, oldest first, without samples */
        get: operations["listEvals"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/evals/{eval}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One validation, with samples */
        get: operations["showEval"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run}/verdict": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What holds the run back, in one sentence, with the numbers it rests on */
        get: operations["showVerdict"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/alert-rules": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The rules by which alerts are raised */
        get: operations["listAlertRules"];
        /** Other rules in place of all there are; alerts of rules that are gone are cleared */
        put: operations["replaceAlertRules"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/alerts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Alerts, newest first */
        get: operations["listAlerts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/alerts/{alert}/ack": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Somebody has seen it; the first who says so is kept */
        post: operations["acknowledgeAlert"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run}/ranks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Ranks of the current attempt */
        get: operations["listRanks"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run}/logs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Log records, oldest first; without a cursor the newest */
        get: operations["listLogs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run}/checkpoints": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Checkpoints, newest update first */
        get: operations["listCheckpoints"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/checkpoints/{checkpoint}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The manifest */
        get: operations["showCheckpoint"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/checkpoints/{checkpoint}/files/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One file of the manifest; Range, If-Range and If-None-Match are honoured */
        get: operations["downloadFile"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/checkpoints/{checkpoint}/SHA256SUMS": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** For sha256sum -c */
        get: operations["checksums"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The live stream */
        get: operations["events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        Alive: {
            /** @constant */
            status: "ok";
        };
        Ready: {
            ready: boolean;
            /** @enum {unknown} */
            database: "ok" | "failing";
            /** @enum {unknown} */
            disk: "ok" | "failing";
            /** @enum {unknown} */
            queue: "ok" | "failing";
        };
        Version: {
            name: string;
            version: string;
            api: string;
            schema: number;
            limits: {
                [key: string]: number;
            };
        };
        Problem: {
            type: string;
            title: string;
            status: number;
            detail: string;
            code: string;
            instance: string;
        };
        /** @enum {unknown} */
        State: "running" | "succeeded" | "stopped" | "failed";
        /** @description null when absent or not finite */
        Number: number | null;
        /** Format: date-time */
        Time: string | null;
        Cursor: string | null;
        Run: {
            id: string;
            name: string;
            state: components["schemas"]["State"];
            attempt: number;
            created_at: components["schemas"]["Time"];
            started_at: components["schemas"]["Time"];
            updated_at: components["schemas"]["Time"];
            finished_at: components["schemas"]["Time"];
            /** @description Since the last record came */
            record_age_ms: number;
            stale_since: components["schemas"]["Time"];
            detail: string;
            version: string;
            world_size: number;
            /** @description Of the current attempt's ranks */
            hosts: string[];
            parameters: number;
            max_updates: number;
            update: number;
            epoch: components["schemas"]["Number"];
            loss: components["schemas"]["Number"];
            nll: components["schemas"]["Number"];
            learning_rate: components["schemas"]["Number"];
            step_ms: components["schemas"]["Number"];
            /** @description Of all ranks; null where the records do not tell */
            target_tokens_per_second: number | null;
            eta_seconds: number | null;
            best: components["schemas"]["Eval"] | null;
            last_eval: components["schemas"]["Eval"] | null;
            /** @description Resolved YAML; only in the answer for one run */
            config?: string;
        };
        Verdict: {
            /** @enum {unknown} */
            verdict: "unknown" | "healthy" | "compute_bound" | "network_bound" | "data_bound" | "straggler_bound" | "checkpoint_bound" | "evaluation_bound";
            /** @description For people; what is missing where the verdict is unknown */
            sentence: string;
            advice: string;
            confidence: number;
            /** @description Updates of the current attempt that were looked at; null without any */
            window: components["schemas"]["VerdictWindow"] | null;
            evidence: components["schemas"]["Evidence"][];
        };
        VerdictWindow: {
            first_update: number;
            last_update: number;
        };
        Evidence: {
            key: string;
            value: components["schemas"]["Number"];
            unit: string;
            /** @description Of an update's time, pauses spread over updates; null where it is no part of that */
            share: number | null;
        };
        AlertRule: {
            name: string;
            /** @enum {unknown} */
            kind: "nan" | "stall" | "throughput_drop" | "loss_spike" | "disk_low" | "worker_lost";
            /** @default true */
            enabled: boolean;
            /** @description Updates, seconds, a ratio, a ratio, bytes, seconds, in the order of kinds */
            threshold: number;
            /**
             * @description How long the condition must hold before the alert
             * @default 0
             */
            hold_s: number;
            /**
             * @description How long it must be gone before the alert is cleared
             * @default 0
             */
            clear_s: number;
            /** @description This run only; null for all */
            run?: string | null;
        };
        AlertRules: {
            items: components["schemas"]["AlertRule"][];
        };
        AlertRulePage: {
            items: components["schemas"]["AlertRule"][];
            next_cursor: components["schemas"]["Cursor"];
        };
        Alert: {
            id: string;
            rule: string;
            /** @enum {unknown} */
            kind: "nan" | "stall" | "throughput_drop" | "loss_spike" | "disk_low" | "worker_lost";
            /** @description null for the server's own */
            run: string | null;
            /** @description The rank or folder meant */
            subject: string | null;
            message: string;
            value: components["schemas"]["Number"];
            threshold: components["schemas"]["Number"];
            /** @enum {unknown} */
            state: "open" | "cleared";
            raised_at: components["schemas"]["Time"];
            cleared_at: components["schemas"]["Time"];
            acknowledged_at: components["schemas"]["Time"];
            acknowledged_by: string | null;
        };
        AlertPage: {
            items: components["schemas"]["Alert"][];
            next_cursor: components["schemas"]["Cursor"];
        };
        RunPage: {
            items: components["schemas"]["Run"][];
            next_cursor: components["schemas"]["Cursor"];
        };
        Batch: {
            attempt: number;
            rank: number;
            host: string;
            records: {
                sequence: number;
                /** @enum {unknown} */
                kind: "step" | "eval" | "checkpoint" | "log" | "lifecycle";
                time_ms: number;
            }[];
        };
        Ingested: {
            accepted: number;
            duplicates: number;
        };
        /**
         * @description How ranks are combined
         * @enum {unknown}
         */
        Aggregate: "mean" | "sum" | "host_sum";
        KeyPage: {
            rank: number;
            next_cursor: components["schemas"]["Cursor"];
            items: {
                key: string;
                aggregate: components["schemas"]["Aggregate"];
                count: number;
                first: number;
                last: number;
                min: number;
                min_step: number;
                max: number;
                max_step: number;
            }[];
        };
        Numbers: components["schemas"]["Number"][];
        /** @description value when exact; avg, and with minmax also min and max, when sampled */
        Series: {
            key: string;
            rank: number | string;
            aggregate: components["schemas"]["Aggregate"];
            /** @enum {unknown} */
            x: "step" | "wall" | "rel";
            /** @enum {unknown} */
            agg: "minmax" | "avg" | "raw";
            total: number;
            returned: number;
            sampled: boolean;
            step: number[];
            time_ms: number[];
            value?: components["schemas"]["Numbers"];
            min?: components["schemas"]["Numbers"];
            avg?: components["schemas"]["Numbers"];
            max?: components["schemas"]["Numbers"];
            non_finite: {
                step: number;
                /** @enum {unknown} */
                kind: "nan" | "inf" | "-inf";
            }[];
        };
        SeriesPage: {
            items: components["schemas"]["Series"][];
            next_cursor: components["schemas"]["Cursor"];
        };
        Eval: {
            id: string;
            run: string;
            time: components["schemas"]["Time"];
            time_ms: number;
            sample_count: number;
            update: number;
            set: string;
            loss: components["schemas"]["Number"];
            nll: components["schemas"]["Number"];
            accuracy: components["schemas"]["Number"];
            sacrebleu: components["schemas"]["Number"];
            chrf: components["schemas"]["Number"];
            signature: string;
            seconds: components["schemas"]["Number"];
            best: boolean;
            non_finite?: {
                [key: string]: string;
            };
            samples?: {
                source: string;
                reference: string;
                hypothesis: string;
            }[];
        };
        EvalPage: {
            items: components["schemas"]["Eval"][];
            next_cursor: components["schemas"]["Cursor"];
        };
        RankPage: {
            attempt: number;
            next_cursor: components["schemas"]["Cursor"];
            items: {
                rank: number;
                attempt: number;
                host: string;
                pid: number;
                device: string;
                update: number;
                records: number;
                /** @description Sequence numbers below the newest that never came */
                missing: number;
                last_record_at: components["schemas"]["Time"];
                record_age_ms: number;
                step_ms: components["schemas"]["Number"];
                exposed_communication_ms: components["schemas"]["Number"];
                target_tokens_per_second: components["schemas"]["Number"];
                network_rx_bytes_per_second: components["schemas"]["Number"];
                network_tx_bytes_per_second: components["schemas"]["Number"];
                busy_fraction: components["schemas"]["Number"];
            }[];
        };
        LogPage: {
            next_cursor: components["schemas"]["Cursor"];
            items: {
                rank: number;
                attempt: number;
                time: components["schemas"]["Time"];
                level: string;
                text: string;
            }[];
        };
        Checkpoint: {
            id: string;
            run: string;
            update: number;
            name: string;
            created_at: components["schemas"]["Time"];
            removed: boolean;
            best: boolean;
            sacrebleu: components["schemas"]["Number"];
            loss: components["schemas"]["Number"];
            bytes: number;
            write_seconds: components["schemas"]["Number"];
            files: {
                name: string;
                size: number;
                sha256: string;
            }[];
        };
        CheckpointPage: {
            items: components["schemas"]["Checkpoint"][];
            next_cursor: components["schemas"]["Cursor"];
        };
    };
    responses: {
        /** @description RFC 9457 */
        Problem: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
    };
    parameters: {
        run: string;
        checkpoint: string;
        limit: number;
        /** @description next_cursor of the page before */
        cursor: string;
    };
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    healthz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Alive */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Alive"];
                };
            };
        };
    };
    readyz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Ready */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Ready"];
                };
            };
            /** @description Not ready */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Ready"];
                };
            };
        };
    };
    version: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Version */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Version"];
                };
            };
        };
    };
    openapi: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OpenAPI 3.1 */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, never>;
                };
            };
        };
    };
    listRuns: {
        parameters: {
            query?: {
                state?: components["schemas"]["State"];
                /** @description Part of a name or id */
                q?: string;
                limit?: components["parameters"]["limit"];
                /** @description next_cursor of the page before */
                cursor?: components["parameters"]["cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunPage"];
                };
            };
            default: components["responses"]["Problem"];
        };
    };
    showRun: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                run: components["parameters"]["run"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The run */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Run"];
                };
            };
            default: components["responses"]["Problem"];
        };
    };
    ingest: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                run: components["parameters"]["run"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Batch"];
            };
        };
        responses: {
            /** @description Stored */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Ingested"];
                };
            };
            default: components["responses"]["Problem"];
        };
    };
    listMetrics: {
        parameters: {
            query?: {
                rank?: number;
            };
            header?: never;
            path: {
                run: components["parameters"]["run"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Keys */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyPage"];
                };
            };
            default: components["responses"]["Problem"];
        };
    };
    showSeries: {
        parameters: {
            query?: {
                /** @description What from and to mean */
                x?: "step" | "wall" | "rel";
                from?: number;
                to?: number;
                points?: number;
                agg?: "minmax" | "avg" | "raw";
                /** @description A rank or all */
                rank?: string;
                format?: "json" | "csv";
            };
            header?: never;
            path: {
                run: components["parameters"]["run"];
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The series */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Series"];
                    "text/csv": string;
                };
            };
            default: components["responses"]["Problem"];
        };
    };
    listSeries: {
        parameters: {
            query: {
                /** @description KEY of all ranks or KEY@RANK; 1 to 64, comma-separated */
                keys: string;
                /** @description What from and to mean */
                x?: "step" | "wall" | "rel";
                from?: number;
                to?: number;
                /** @description Of each */
                points?: number;
                agg?: "minmax" | "avg";
            };
            header?: never;
            path: {
                run: components["parameters"]["run"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description In the order of keys; a key that no step has is empty */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SeriesPage"];
                };
            };
            default: components["responses"]["Problem"];
        };
    };
    exportMetrics: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                run: components["parameters"]["run"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Rows */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/csv": string;
                };
            };
            default: components["responses"]["Problem"];
        };
    };
    listEvals: {
        parameters: {
            query?: {
                limit?: components["parameters"]["limit"];
                /** @description next_cursor of the page before */
                cursor?: components["parameters"]["cursor"];
            };
            header?: never;
            path: {
                run: components["parameters"]["run"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EvalPage"];
                };
            };
            default: components["responses"]["Problem"];
        };
    };
    showEval: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                eval: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The validation */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Eval"];
                };
            };
            default: components["responses"]["Problem"];
        };
    };
    showVerdict: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                run: components["parameters"]["run"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The verdict */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Verdict"];
                };
            };
            default: components["responses"]["Problem"];
        };
    };
    listAlertRules: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description All rules */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AlertRulePage"];
                };
            };
            default: components["responses"]["Problem"];
        };
    };
    replaceAlertRules: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AlertRules"];
            };
        };
        responses: {
            /** @description All rules */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AlertRulePage"];
                };
            };
            default: components["responses"]["Problem"];
        };
    };
    listAlerts: {
        parameters: {
            query?: {
                run?: string;
                state?: "open" | "cleared";
                limit?: components["parameters"]["limit"];
                /** @description next_cursor of the page before */
                cursor?: components["parameters"]["cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AlertPage"];
                };
            };
            default: components["responses"]["Problem"];
        };
    };
    acknowledgeAlert: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                alert: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The alert */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Alert"];
                };
            };
            default: components["responses"]["Problem"];
        };
    };
    listRanks: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                run: components["parameters"]["run"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Ranks */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RankPage"];
                };
            };
            default: components["responses"]["Problem"];
        };
    };
    listLogs: {
        parameters: {
            query?: {
                rank?: number;
                level?: string;
                /** @description Part of the text */
                q?: string;
                tail?: number;
                limit?: components["parameters"]["limit"];
                /** @description next_cursor of the page before */
                cursor?: components["parameters"]["cursor"];
            };
            header?: never;
            path: {
                run: components["parameters"]["run"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Lines; next_cursor is always given, because logs grow */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogPage"];
                    "text/plain": string;
                };
            };
            default: components["responses"]["Problem"];
        };
    };
    listCheckpoints: {
        parameters: {
            query?: {
                removed?: boolean;
                limit?: components["parameters"]["limit"];
                /** @description next_cursor of the page before */
                cursor?: components["parameters"]["cursor"];
            };
            header?: never;
            path: {
                run: components["parameters"]["run"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckpointPage"];
                };
            };
            default: components["responses"]["Problem"];
        };
    };
    showCheckpoint: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                checkpoint: components["parameters"]["checkpoint"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Manifest */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Checkpoint"];
                };
            };
            default: components["responses"]["Problem"];
        };
    };
    downloadFile: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                checkpoint: components["parameters"]["checkpoint"];
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                };
            };
            /** @description A part */
            206: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                };
            };
            /** @description The client has it */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description No such part */
            416: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: components["responses"]["Problem"];
        };
    };
    checksums: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                checkpoint: components["parameters"]["checkpoint"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Digests */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            default: components["responses"]["Problem"];
        };
    };
    events: {
        parameters: {
            query?: {
                /** @description Absent for all runs */
                run?: string;
                /** @description Of metrics, state, checkpoint, eval, log, alert; comma-separated */
                topic?: string;
                /** @description As Last-Event-ID */
                after?: string;
            };
            header?: {
                "Last-Event-ID"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Events */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            default: components["responses"]["Problem"];
        };
    };
}
