// Generated from server/api/openapi.yaml by "npm run types" in tests/contract. Do not edit.

export interface paths {
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Liveness; does not use the database */
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
        /** Readiness of the database, its disk, the checkpoints' disks and the queue */
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
        /** Queue a run that the server starts */
        post: operations["submitRun"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs:validate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A dry run of submitting: checks, configuration, command */
        post: operations["validateRun"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/profiles": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Launch profiles of this server, by name */
        get: operations["listProfiles"];
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
        /** Delete an ended run; it can be restored for 7 days */
        delete: operations["deleteRun"];
        options?: never;
        head?: never;
        /** Change name, labels, notes, archived, restarts; restore a deleted run */
        patch: operations["editRun"];
        trace?: never;
    };
    "/api/v1/runs/{run}/stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Stop a run, with a checkpoint or immediately */
        post: operations["stopRun"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Queue the next attempt of an ended run */
        post: operations["resumeRun"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run}/checkpoint": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Request a checkpoint after the current update; 429 too_soon within 10 s of the last request */
        post: operations["requestCheckpoint"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run}/heartbeat": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A rank's heartbeat; the response has commands. 409 stale_attempt: the process must end */
        post: operations["heartbeat"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run}/transitions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Every change of state with its cause, oldest first */
        get: operations["listTransitions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run}/attempts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Attempts with launcher and end, oldest first */
        get: operations["listAttempts"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/nodes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Hosts with ranks that reported in the last 24 hours, by name */
        get: operations["listNodes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/nodes/{host}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One host */
        get: operations["showNode"];
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
    "/api/v1/metrics/query": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Several keys of several runs on common rows, for comparison */
        post: operations["queryMetrics"];
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
        /** Add a validation made outside the training run, for example on another set */
        post: operations["addEval"];
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
        /** The run's bottleneck in one sentence, with evidence */
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
        /** The alert rules */
        get: operations["listAlertRules"];
        /** Replace all rules; alerts of removed rules are cleared */
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
        /** Acknowledge an alert; the first acknowledgement is kept */
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
        /** Ranks of the current attempt, by rank */
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
    "/api/v1/runs/{run}/retention": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The retention policy of checkpoints and log */
        get: operations["showRetention"];
        /** Set the retention policy; applied within seconds to checkpoints below the server's roots */
        put: operations["replaceRetention"];
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
        /** Remove its files; refused if it is pinned, best, the last complete one or being read */
        delete: operations["deleteCheckpoint"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/checkpoints/{checkpoint}/pin": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Pin it, which protects it from all retention, including the worker's */
        put: operations["pinCheckpoint"];
        post?: never;
        /** Unpin it */
        delete: operations["unpinCheckpoint"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/checkpoints/{checkpoint}/translate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Translate lines of text with it, in a separate process
         * @description What is left out is as in `nmt translate`. At most 16 requests wait, and each has 30 s, loading included. 503 where the server is busy, too slow or has no translator, 500 where the translator broke, 409 where the checkpoint is not whole, 422 where a line is too long.
         */
        post: operations["translateText"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/checkpoints/{checkpoint}/archive.tar": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All files and SHA256SUMS as a tar archive of known length; supports Range, If-Range, If-Match and If-None-Match */
        get: operations["downloadArchive"];
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
        /** One file of the manifest; supports Range, If-Range, If-Match and If-None-Match */
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
        /** Digests for sha256sum -c */
        get: operations["checksums"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/admin/backup": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** State of the newest backup since the server's start */
        get: operations["showBackup"];
        put?: never;
        /** Make a verified copy of the live database in DATA/backups */
        post: operations["startBackup"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Prometheus text format 0.0.4; with --open-metrics, local clients need no token */
        get: operations["prometheus"];
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
        /** The live stream of events; 503 too_many_streams beyond 8 per token or 10,000 in all */
        get: operations["events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tokens": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Tokens, oldest first, without their secrets */
        get: operations["listTokens"];
        put?: never;
        /** Create a token; only this response has its secret */
        post: operations["makeToken"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tokens/self": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The request's own token; on a server without tokens, an administrator without an id */
        get: operations["showOwnToken"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/tokens/{token}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Revoke a token; its open streams end within 15 s */
        delete: operations["removeToken"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The audit of write requests, newest first */
        get: operations["listAudit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/audit.jsonl": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All matching entries of the audit, oldest first, one AuditEntry per line */
        get: operations["exportAudit"];
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
        NewToken: {
            name: string;
            /** @enum {unknown} */
            scope: "read" | "ingest" | "operate" | "admin";
            /** @description The only run that it may report for. Scope ingest needs one of run, run_prefix and any_run */
            run?: string | null;
            /** @description Name prefix of the runs that it may report for */
            run_prefix?: string | null;
            /** @description true: any run that it begins */
            any_run?: boolean | null;
            expires_in_seconds?: number | null;
        };
        Token: {
            id: string;
            name: string;
            /** @enum {unknown} */
            scope: "read" | "ingest" | "operate" | "admin";
            /** @description The only run that it may report for */
            run: string | null;
            /** @description Name prefix of the runs that it may report for */
            run_prefix: string | null;
            created_at: components["schemas"]["Time"];
            created_by: string;
            expires_at: components["schemas"]["Time"];
            last_used_at: components["schemas"]["Time"];
            /** @description Only in the response that created it; null in a replay */
            secret?: string | null;
        };
        OwnToken: {
            id: string | null;
            name: string;
            /** @enum {unknown} */
            scope: "read" | "operate" | "admin";
            run: string | null;
            expires_at: components["schemas"]["Time"];
        };
        TokenPage: {
            items: components["schemas"]["Token"][];
            next_cursor: components["schemas"]["Cursor"];
        };
        AuditPage: {
            next_cursor: components["schemas"]["Cursor"];
            items: components["schemas"]["AuditEntry"][];
        };
        AuditEntry: {
            time: components["schemas"]["Time"];
            last_time: components["schemas"]["Time"];
            /** @description Number of requests: repeated ingest requests and refusals are joined. The other members are those of the first one */
            count: number;
            /** @description The token's name, or anonymous */
            actor: string;
            /** @description Its id */
            token: string | null;
            method: string;
            /** @description The path's template */
            route: string;
            /** @description The path that was requested or created */
            object: string;
            status: number;
            /** @description X-Request-Id */
            request: string;
            address: string;
        };
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
            /**
             * @description Whether there is space for one more checkpoint of each active run
             * @enum {unknown}
             */
            checkpoint_disk: "ok" | "failing";
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
            errors?: {
                pointer: string;
                detail: string;
                /** @description In a text within the body */
                line?: number;
                column?: number;
            }[];
        };
        /** @enum {unknown} */
        State: "queued" | "launching" | "running" | "stopping" | "restarting" | "suspended" | "lost" | "succeeded" | "failed" | "stopped";
        Labels: {
            [key: string]: string;
        };
        /** @description Either config or config_ref */
        NewRun: {
            /** @description Replaces the configuration's name */
            name?: string | null;
            /** @description YAML, at most 1 MiB */
            config?: string | null;
            /** @description The id of a run whose configuration is used */
            config_ref?: string | null;
            /** @default mpirun-local */
            profile: string | null;
            /** @default 1 */
            world_size: number | null;
            /** @default 3 */
            max_restarts: number | null;
            /** @description The id of a checkpoint to start from */
            resume_from?: string | null;
            labels?: components["schemas"]["Labels"] | null;
            notes?: string | null;
        };
        Validation: {
            profile: string;
            world_size: number;
            /** @description Resolved YAML */
            config: string;
            /** @description Program and arguments; RUN is a placeholder for the id */
            command: string[];
            max_updates: number | null;
            /** @description Per rank during an update; null if the data, which determines the vocabulary, is not available */
            memory: components["schemas"]["MemoryEstimate"] | null;
            /** @description Median of the newest updates of step_ms_run */
            step_ms: number | null;
            /** @description The newest run with the same model, precision, tokens, threads and ranks on the same hosts */
            step_ms_run: string | null;
            /** @description Unknown quantities, with the reason */
            not_estimated: string[];
        };
        /** @description Bytes by purpose, as in step records; memory shared by the ranks of a host counts for each of them */
        MemoryEstimate: {
            /** @description Number of parameters */
            parameters: number;
            /** @description Of the assumed micro-batch */
            source_tokens: number;
            target_tokens: number;
            weights: number;
            gradients: number;
            moments: number;
            activations: number;
            scratch: number;
            total: number;
        };
        RunEdit: {
            name?: string | null;
            labels?: components["schemas"]["Labels"] | null;
            notes?: string | null;
            archived?: boolean | null;
            /**
             * @description false restores the run
             * @enum {unknown}
             */
            deleted?: false | null;
            max_restarts?: number | null;
        };
        /** @description RFC 7396. Labels that are absent stay, null ones are removed; notes and labels may also be null themselves */
        RunPatch: {
            name?: string;
            labels?: {
                [key: string]: string | null;
            } | null;
            notes?: string | null;
            archived?: boolean;
            /**
             * @description false restores the run
             * @constant
             */
            deleted?: false;
            max_restarts?: number;
        };
        /** @description The body may be omitted */
        Nothing: Record<string, never>;
        Stop: {
            /**
             * @default checkpoint
             * @enum {unknown}
             */
            mode: "checkpoint" | "now" | null;
            /**
             * @description Seconds until its processes are killed
             * @default 300
             */
            grace_s: number | null;
        };
        Resume: {
            /**
             * @description The id of one of the run's checkpoints, or latest
             * @default latest
             */
            checkpoint: string | null;
            world_size?: number | null;
        };
        CheckpointWish: {
            run: string;
            attempt: number;
            number: number;
        };
        /** @description Unknown members are ignored */
        Heartbeat: {
            attempt: number;
            /** @default 0 */
            rank: number;
            host: string;
            pid?: number;
            update?: number;
            /** @description Seconds since the last completed update */
            since_update_s?: number;
            /** @description Number of the newest completed checkpoint request */
            checkpoint_done?: number;
            resident_bytes?: number;
            /** @description The rank's GPU as last reported by its driver; unreported members are absent */
            gpu?: {
                utilization_percent?: number;
                memory_used_bytes?: number;
                clock_mhz?: number;
                power_w?: number;
                power_limit_w?: number;
            } | null;
            /** @description This and the following members describe the host */
            memory_bytes?: number;
            memory_available_bytes?: number;
            disk_free_bytes?: number;
            network_rx_bytes?: number;
            network_tx_bytes?: number;
            processors?: number;
            load?: number;
        };
        Orders: {
            interval_ms: number;
            commands: {
                /** @enum {unknown} */
                kind: "stop" | "checkpoint";
                /**
                 * @description Of stop
                 * @enum {unknown}
                 */
                mode?: "checkpoint" | "now";
                /** @description Of checkpoint */
                number?: number;
            }[];
        };
        TransitionPage: {
            next_cursor: components["schemas"]["Cursor"];
            items: {
                time: components["schemas"]["Time"];
                attempt: number;
                from: components["schemas"]["State"] | null;
                to: components["schemas"]["State"];
                event: string;
                cause: string;
                actor: string;
            }[];
        };
        AttemptPage: {
            next_cursor: components["schemas"]["Cursor"];
            items: {
                attempt: number;
                /** @enum {unknown} */
                launcher: "mpirun" | "slurm" | "external";
                pid: number | null;
                /** @description Slurm job id */
                job: string | null;
                world_size: number | null;
                /** @description Folder of the requested checkpoint */
                resumed_from: string | null;
                started_at: components["schemas"]["Time"];
                ended_at: components["schemas"]["Time"];
                /** @description Above 128: 128 + the signal */
                exit_code: number | null;
                cause: string;
            }[];
        };
        ProfilePage: {
            next_cursor: components["schemas"]["Cursor"];
            items: {
                name: string;
                /** @enum {unknown} */
                launcher: "mpirun" | "slurm";
                hosts: string[];
                most_ranks: number;
                most_running: number;
            }[];
        };
        Node: {
            host: string;
            heartbeat_age_ms: number;
            /** @description No heartbeat for 10 s */
            silent: boolean;
            processors: number;
            load: number;
            memory_bytes: number;
            memory_available_bytes: number;
            disk_free_bytes: number;
            network_rx_bytes_per_second: number;
            network_tx_bytes_per_second: number;
            /** @description Ranks that reported within the last minute */
            ranks: {
                run: string;
                rank: number;
                gpu: components["schemas"]["Gpu"];
            }[];
        };
        /** @description From the rank's newest heartbeat; null if unknown */
        Gpu: {
            utilization_percent: number | null;
            memory_used_bytes: number | null;
            clock_mhz: number | null;
            power_w: number | null;
            power_limit_w: number | null;
        } | null;
        NodePage: {
            items: components["schemas"]["Node"][];
            next_cursor: components["schemas"]["Cursor"];
        };
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
            /** @description Milliseconds since the last record */
            record_age_ms: number;
            stale_since: components["schemas"]["Time"];
            detail: string;
            version: string;
            world_size: number;
            /** @description Hosts of the current attempt's ranks, without repetitions */
            hosts: string[];
            parameters: number;
            max_updates: number;
            /** @description external if it was started by hand */
            profile: string;
            labels: components["schemas"]["Labels"];
            notes: string;
            archived: boolean;
            deleted_at: components["schemas"]["Time"];
            /** @description Restarts since it was submitted or resumed; null if started by hand */
            restarts: number | null;
            max_restarts: number | null;
            update: number;
            epoch: components["schemas"]["Number"];
            loss: components["schemas"]["Number"];
            nll: components["schemas"]["Number"];
            learning_rate: components["schemas"]["Number"];
            step_ms: components["schemas"]["Number"];
            /** @description Of all ranks; null if not reported */
            target_tokens_per_second: number | null;
            /** @description The same as progress.seconds_left */
            eta_seconds: number | null;
            progress: components["schemas"]["Progress"];
            health: components["schemas"]["Health"];
            best: components["schemas"]["Eval"] | null;
            last_eval: components["schemas"]["Eval"] | null;
            /** @description Resolved YAML; only in the response for a single run */
            config?: string;
        };
        Progress: {
            /** @description Fraction of the training done, by the end condition that is reached first; null if unknown */
            fraction: number | null;
            /** @description Null if unknown, and for a run that is silent or does not train */
            seconds_left: number | null;
            /** @description The end condition: 20 epochs, 55 minutes, 100,000 updates; empty if unknown */
            end: string;
            /** @description Early stopping may end it earlier */
            at_latest: boolean;
        };
        /** @description The run's health at a glance */
        Health: {
            level: components["schemas"]["HealthLevel"];
            /** @description The text of the worst part */
            headline: string;
            /** @description Recommended action */
            action: string | null;
            /** @description In the order of topics; unknown and irrelevant topics are absent */
            parts: components["schemas"]["HealthPart"][];
        };
        HealthPart: {
            /** @enum {unknown} */
            topic: "state" | "learning" | "speed" | "hosts" | "alerts";
            level: components["schemas"]["HealthLevel"];
            text: string;
            action: string | null;
        };
        /**
         * @description unknown if there is too little data, or nothing to judge, as for a run that was stopped on request
         * @enum {unknown}
         */
        HealthLevel: "good" | "warning" | "bad" | "unknown";
        Verdict: {
            /** @enum {unknown} */
            verdict: "unknown" | "healthy" | "compute_bound" | "network_bound" | "data_bound" | "straggler_bound" | "checkpoint_bound" | "evaluation_bound" | "host_contended";
            level: components["schemas"]["HealthLevel"];
            /** @description For people; says what is missing if the verdict is unknown */
            sentence: string;
            advice: string;
            confidence: number;
            /** @description The evaluated updates of the current attempt; null if there are none */
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
            /** @description Fraction of an update's time, with pauses spread over updates; null if it is not a part of it */
            share: number | null;
        };
        AlertRule: {
            name: string;
            /** @enum {unknown} */
            kind: "nan" | "stall" | "throughput_drop" | "loss_spike" | "disk_low" | "worker_lost" | "ranks_differ";
            /** @default true */
            enabled: boolean;
            /** @description Updates, seconds, a ratio, a ratio, bytes, seconds, in the order of kinds */
            threshold: number;
            /**
             * @description Seconds that the condition must hold before the alert is raised
             * @default 0
             */
            hold_s: number;
            /**
             * @description Seconds that it must be over before the alert is cleared
             * @default 0
             */
            clear_s: number;
            /** @description Only for this run; null for all */
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
            kind: "nan" | "stall" | "throughput_drop" | "loss_spike" | "disk_low" | "worker_lost" | "ranks_differ";
            /** @description null for alerts about the server */
            run: string | null;
            /** @description The rank or folder concerned */
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
        RunPartPage: {
            fields: string[];
            items: Record<string, never>[];
            next_cursor: components["schemas"]["Cursor"];
        };
        /** @description Unknown members, here and in records, are ignored */
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
         * @description How values of ranks are combined
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
        /** @description value if exact; avg, and with minmax also min and max, if sampled */
        Series: {
            key: string;
            rank: number | string;
            aggregate: components["schemas"]["Aggregate"];
            /** @enum {unknown} */
            x: "step" | "wall" | "rel";
            /** @enum {unknown} */
            agg: "minmax" | "avg" | "lttb" | "raw";
            total: number;
            returned: number;
            sampled: boolean;
            step: number[];
            time_ms: number[];
            value?: components["schemas"]["Numbers"];
            min?: components["schemas"]["Numbers"];
            avg?: components["schemas"]["Numbers"];
            max?: components["schemas"]["Numbers"];
            non_finite: components["schemas"]["NonFinite"];
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
            /** @description BLEU of the most likely subwords, each predicted from the reference before it; null from older workers */
            teacher_forced_bleu: components["schemas"]["Number"];
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
        NewEval: {
            /** @description The update after which the model was evaluated */
            update: number;
            set: string;
            loss?: number | null;
            nll?: number | null;
            accuracy?: number | null;
            sacrebleu?: number | null;
            chrf?: number | null;
            teacher_forced_bleu?: number | null;
            signature?: string | null;
            samples?: {
                /** @description At most 4 KiB */
                source?: string | null;
                reference?: string | null;
                hypothesis?: string | null;
            }[] | null;
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
                /**
                 * @description silent: no heartbeat for 10 s; ended: its attempt has ended
                 * @enum {unknown}
                 */
                state: "starting" | "training" | "silent" | "ended";
                update: number;
                records: number;
                /** @description Number of sequence numbers below the newest that never arrived */
                missing: number;
                last_record_at: components["schemas"]["Time"];
                record_age_ms: number;
                /** @description null without heartbeats */
                heartbeat_age_ms: number | null;
                since_update_s: number | null;
                resident_bytes: number | null;
                gpu: components["schemas"]["Gpu"];
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
                /** @description 1 is the run's first */
                line: number;
                rank: number;
                attempt: number;
                time: components["schemas"]["Time"];
                level: string;
                text: string;
            }[];
        };
        TranslateRequest: {
            text: string[];
            beam?: number | null;
            /** @description Translations per line; at most beam */
            nbest?: number | null;
            length_penalty?: number | null;
        };
        Translations: {
            checkpoint: string;
            /** @description Duration of the search */
            ms: number;
            /** @description One per line, in order */
            items: {
                hyp: string;
                /** @description Log-probability over the length penalty; null for a line without tokens */
                score: number | null;
                source_pieces: number;
                /** @description Best first */
                nbest: {
                    hyp: string;
                    score: number;
                    log_probability: number;
                    /** @description false: truncated at the max length */
                    complete: boolean;
                }[];
            }[];
        };
        Checkpoint: {
            id: string;
            run: string;
            update: number;
            name: string;
            created_at: components["schemas"]["Time"];
            removed: boolean;
            /** @description Reported with its files and not removed since */
            complete: boolean;
            pinned: boolean;
            best: boolean;
            sacrebleu: components["schemas"]["Number"];
            loss: components["schemas"]["Number"];
            bytes: number;
            write_seconds: components["schemas"]["Number"];
            /** @description Version of the program that wrote it; null from older workers */
            version: string | null;
            /** @description Ranks that trained it; null from older workers */
            world_size: number | null;
            /** @description Digest of its config.yaml */
            config_sha256: string | null;
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
        RetentionCount: number | null;
        RetentionBytes: number | null;
        BestWish: {
            /**
             * @default sacrebleu
             * @enum {unknown}
             */
            metric: "sacrebleu" | "loss";
            /** @default 1 */
            count: number;
        };
        /** @description A checkpoint is kept if any keep_ rule selects it; without rules all are kept. Above max_bytes the oldest are removed */
        RetentionWish: {
            keep_last?: components["schemas"]["RetentionCount"];
            keep_best?: components["schemas"]["BestWish"] | null;
            keep_every_steps?: components["schemas"]["RetentionCount"];
            max_bytes?: components["schemas"]["RetentionBytes"];
            max_log_bytes?: components["schemas"]["RetentionBytes"];
        };
        Retention: {
            keep_last: components["schemas"]["RetentionCount"];
            keep_best: components["schemas"]["BestWish"] | null;
            keep_every_steps: components["schemas"]["RetentionCount"];
            max_bytes: components["schemas"]["RetentionBytes"];
            max_log_bytes: components["schemas"]["RetentionBytes"];
        };
        Backup: {
            /** @enum {unknown} */
            state: "none" | "running" | "done" | "failed";
            file: string | null;
            bytes: number;
            started_at: components["schemas"]["Time"];
            finished_at: components["schemas"]["Time"];
            /** @description Reason for the failure */
            detail: string;
        };
        /** @description At most 50 series */
        MetricsQuery: {
            runs: string[];
            keys: string[];
            /** @default all */
            rank: number | string;
            /**
             * @default step
             * @enum {unknown}
             */
            x: "step" | "wall" | "rel";
            from?: number;
            to?: number;
            /** @default 1200 */
            points: number;
            /**
             * @default minmax
             * @enum {unknown}
             */
            agg: "minmax" | "avg";
        };
        AlignedSeries: {
            /** @enum {unknown} */
            x: "step" | "wall" | "rel";
            /** @description Every row is one place; otherwise a bin of the given width */
            exact: boolean;
            width: number;
            /** @description Start of each row */
            at: number[];
            /** @description Runs in the requested order, each with all keys; null if a series has no point in a row */
            items: {
                run: string;
                key: string;
                rank: number | string;
                aggregate: components["schemas"]["Aggregate"];
                total: number;
                value?: components["schemas"]["Numbers"];
                min?: components["schemas"]["Numbers"];
                avg?: components["schemas"]["Numbers"];
                max?: components["schemas"]["Numbers"];
                non_finite: components["schemas"]["NonFinite"];
            }[];
        };
        NonFinite: {
            step: number;
            /** @enum {unknown} */
            kind: "nan" | "inf" | "-inf";
        }[];
    };
    responses: never;
    parameters: {
        run: string;
        checkpoint: string;
        limit: number;
        /** @description A request repeated with the same key within 24 hours gets the first response again */
        idempotencyKey: string;
        /** @description ETags of the expected state; 412 if it has changed. A weak tag never matches */
        ifMatch: string;
        /** @description The name of a token */
        auditActor: string;
        /** @description The id of a token */
        auditToken: string;
        /** @description The path's template */
        auditRoute: string;
        /** @description This path and those below it */
        auditObject: string;
        /** @description 403, or 4xx for a class */
        auditStatus: string;
        /** @description Only entries at this time or later: RFC 3339, or a UTC day, 2026-11-21 */
        auditFrom: string;
        /** @description Only entries before this time */
        auditTo: string;
        /** @description next_cursor of the previous page */
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
                /** @description One or several, comma-separated */
                state?: components["schemas"]["State"][];
                /** @description Part of a name or id */
                q?: string;
                /** @description NAME or NAME=VALUE */
                label?: string;
                /** @description Milliseconds since 1970 */
                created_after?: number;
                /** @description Milliseconds since 1970; runs with a report after this time */
                updated_after?: number;
                archived?: boolean;
                sort?: "-created_at" | "created_at" | "-updated_at";
                /** @description Members of a run, comma-separated; absent: all */
                fields?: string;
                limit?: components["parameters"]["limit"];
                /** @description next_cursor of the previous page */
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
                    "application/json": components["schemas"]["RunPage"] | components["schemas"]["RunPartPage"];
                };
            };
        };
    };
    submitRun: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request repeated with the same key within 24 hours gets the first response again */
                "Idempotency-Key"?: components["parameters"]["idempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewRun"];
            };
        };
        responses: {
            /** @description Queued */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Run"];
                };
            };
        };
    };
    validateRun: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewRun"];
            };
        };
        responses: {
            /** @description Valid */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Validation"];
                };
            };
        };
    };
    listProfiles: {
        parameters: {
            query?: {
                limit?: components["parameters"]["limit"];
                /** @description next_cursor of the previous page */
                cursor?: components["parameters"]["cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Profiles */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProfilePage"];
                };
            };
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
        };
    };
    deleteRun: {
        parameters: {
            query?: {
                /** @description Whether its checkpoint files are kept or deleted after the 7 days */
                checkpoints?: "keep" | "delete";
            };
            header?: {
                /** @description ETags of the expected state; 412 if it has changed. A weak tag never matches */
                "If-Match"?: components["parameters"]["ifMatch"];
            };
            path: {
                run: components["parameters"]["run"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Deleted */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Run"];
                };
            };
        };
    };
    editRun: {
        parameters: {
            query?: never;
            header?: {
                /** @description ETags of the expected state; 412 if it has changed. A weak tag never matches */
                "If-Match"?: components["parameters"]["ifMatch"];
            };
            path: {
                run: components["parameters"]["run"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RunEdit"];
                "application/merge-patch+json": components["schemas"]["RunPatch"];
            };
        };
        responses: {
            /** @description The changed run */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Run"];
                };
            };
        };
    };
    stopRun: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                run: components["parameters"]["run"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Stop"];
            };
        };
        responses: {
            /** @description Requested */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Run"];
                };
            };
        };
    };
    resumeRun: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request repeated with the same key within 24 hours gets the first response again */
                "Idempotency-Key"?: components["parameters"]["idempotencyKey"];
            };
            path: {
                run: components["parameters"]["run"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Resume"];
            };
        };
        responses: {
            /** @description Queued */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Run"];
                };
            };
        };
    };
    requestCheckpoint: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request repeated with the same key within 24 hours gets the first response again */
                "Idempotency-Key"?: components["parameters"]["idempotencyKey"];
            };
            path: {
                run: components["parameters"]["run"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            /** @description Requested */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckpointWish"];
                };
            };
        };
    };
    heartbeat: {
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
                "application/json": components["schemas"]["Heartbeat"];
            };
        };
        responses: {
            /** @description Accepted */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Orders"];
                };
            };
        };
    };
    listTransitions: {
        parameters: {
            query?: {
                limit?: components["parameters"]["limit"];
                /** @description next_cursor of the previous page */
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
            /** @description Changes */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TransitionPage"];
                };
            };
        };
    };
    listAttempts: {
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
            /** @description Attempts */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AttemptPage"];
                };
            };
        };
    };
    listNodes: {
        parameters: {
            query?: {
                limit?: components["parameters"]["limit"];
                /** @description next_cursor of the previous page */
                cursor?: components["parameters"]["cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Hosts */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodePage"];
                };
            };
        };
    };
    showNode: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                host: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The host */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Node"];
                };
            };
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
        };
    };
    showSeries: {
        parameters: {
            query?: {
                /** @description Unit of from and to */
                x?: "step" | "wall" | "rel";
                from?: number;
                to?: number;
                /** @description agg=raw returns every point, up to 1,000,000 */
                points?: number;
                agg?: "minmax" | "avg" | "lttb" | "raw";
                /** @description A rank or all */
                rank?: string;
                /** @description Takes precedence over Accept */
                format?: "json" | "csv" | "f64";
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
                    "application/vnd.babelring.f64": string;
                };
            };
            /** @description The client's copy is current */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    listSeries: {
        parameters: {
            query: {
                /** @description KEY for all ranks or KEY@RANK; 1 to 64, comma-separated */
                keys: string;
                /** @description Unit of from and to */
                x?: "step" | "wall" | "rel";
                from?: number;
                to?: number;
                /** @description Max points per series */
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
            /** @description In the order of keys, without repetitions; a key without any step is empty */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SeriesPage"];
                };
            };
        };
    };
    queryMetrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MetricsQuery"];
            };
        };
        responses: {
            /** @description Aligned columns */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AlignedSeries"];
                };
            };
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
        };
    };
    listEvals: {
        parameters: {
            query?: {
                limit?: components["parameters"]["limit"];
                /** @description next_cursor of the previous page */
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
        };
    };
    addEval: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request repeated with the same key within 24 hours gets the first response again */
                "Idempotency-Key"?: components["parameters"]["idempotencyKey"];
            };
            path: {
                run: components["parameters"]["run"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewEval"];
            };
        };
        responses: {
            /** @description Stored */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Eval"];
                };
            };
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
        };
    };
    listAlerts: {
        parameters: {
            query?: {
                run?: string;
                state?: "open" | "cleared";
                limit?: components["parameters"]["limit"];
                /** @description next_cursor of the previous page */
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
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
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
        };
    };
    listRanks: {
        parameters: {
            query?: {
                limit?: components["parameters"]["limit"];
                /** @description next_cursor of the previous page */
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
            /** @description Ranks */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RankPage"];
                };
            };
        };
    };
    listLogs: {
        parameters: {
            query?: {
                rank?: number;
                level?: "debug" | "info" | "warn" | "error";
                /** @description Part of the text */
                q?: string;
                /** @description Number of newest lines, without after and cursor */
                tail?: number;
                /** @description Lines after this number */
                after?: number;
                /** @description Max lines, with after or cursor */
                limit?: number;
                /** @description next_cursor of the previous page */
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
            /** @description Lines; next_cursor is always present, because logs grow */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogPage"];
                    "application/x-ndjson": string;
                    "text/plain": string;
                };
            };
        };
    };
    listCheckpoints: {
        parameters: {
            query?: {
                /** @description Also lists removed ones */
                removed?: boolean;
                /** @description Only ones that are not removed and have files */
                complete?: boolean;
                pinned?: boolean;
                /** @description In descending order */
                sort?: "step" | "bleu";
                limit?: components["parameters"]["limit"];
                /** @description next_cursor of the previous page */
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
        };
    };
    showRetention: {
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
            /** @description The policy */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Retention"];
                };
            };
            /** @description The client's copy is current */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    replaceRetention: {
        parameters: {
            query?: never;
            header?: {
                /** @description ETags of the expected state; 412 if it has changed. A weak tag never matches */
                "If-Match"?: components["parameters"]["ifMatch"];
            };
            path: {
                run: components["parameters"]["run"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RetentionWish"];
            };
        };
        responses: {
            /** @description The policy */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Retention"];
                };
            };
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
            /** @description The client's copy is current */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    deleteCheckpoint: {
        parameters: {
            query?: never;
            header?: {
                /** @description ETags of the expected state; 412 if it has changed. A weak tag never matches */
                "If-Match"?: components["parameters"]["ifMatch"];
            };
            path: {
                checkpoint: components["parameters"]["checkpoint"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Removed */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    pinCheckpoint: {
        parameters: {
            query?: never;
            header?: {
                /** @description ETags of the expected state; 412 if it has changed. A weak tag never matches */
                "If-Match"?: components["parameters"]["ifMatch"];
            };
            path: {
                checkpoint: components["parameters"]["checkpoint"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Pinned */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    unpinCheckpoint: {
        parameters: {
            query?: never;
            header?: {
                /** @description ETags of the expected state; 412 if it has changed. A weak tag never matches */
                "If-Match"?: components["parameters"]["ifMatch"];
            };
            path: {
                checkpoint: components["parameters"]["checkpoint"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Unpinned */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    translateText: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                checkpoint: components["parameters"]["checkpoint"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TranslateRequest"];
            };
        };
        responses: {
            /** @description Translations */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Translations"];
                };
            };
        };
    };
    downloadArchive: {
        parameters: {
            query?: never;
            header?: {
                /** @description ETags of the expected state; 412 if it has changed. A weak tag never matches */
                "If-Match"?: components["parameters"]["ifMatch"];
            };
            path: {
                checkpoint: components["parameters"]["checkpoint"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The archive */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-tar": string;
                };
            };
            /** @description A part */
            206: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-tar": string;
                };
            };
            /** @description The client's copy is current */
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
        };
    };
    downloadFile: {
        parameters: {
            query?: never;
            header?: {
                /** @description ETags of the expected state; 412 if it has changed. A weak tag never matches */
                "If-Match"?: components["parameters"]["ifMatch"];
            };
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
            /** @description The client's copy is current */
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
        };
    };
    showBackup: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The backup */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Backup"];
                };
            };
        };
    };
    startBackup: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            /** @description Started */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Backup"];
                };
            };
        };
    };
    prometheus: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Samples */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
        };
    };
    events: {
        parameters: {
            query?: {
                /** @description Absent: all runs */
                run?: string;
                /** @description Of metrics, state, checkpoint, eval, log, alert; comma-separated */
                topic?: string;
                /** @description Same as Last-Event-ID */
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
        };
    };
    listTokens: {
        parameters: {
            query?: {
                limit?: components["parameters"]["limit"];
                /** @description next_cursor of the previous page */
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
                    "application/json": components["schemas"]["TokenPage"];
                };
            };
        };
    };
    makeToken: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request repeated with the same key within 24 hours gets the first response again */
                "Idempotency-Key"?: components["parameters"]["idempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewToken"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Token"];
                };
            };
        };
    };
    showOwnToken: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The token */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OwnToken"];
                };
            };
        };
    };
    removeToken: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                token: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Revoked */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
    listAudit: {
        parameters: {
            query?: {
                /** @description The name of a token */
                actor?: components["parameters"]["auditActor"];
                /** @description The id of a token */
                token?: components["parameters"]["auditToken"];
                /** @description The path's template */
                route?: components["parameters"]["auditRoute"];
                /** @description This path and those below it */
                object?: components["parameters"]["auditObject"];
                /** @description 403, or 4xx for a class */
                status?: components["parameters"]["auditStatus"];
                /** @description Only entries at this time or later: RFC 3339, or a UTC day, 2026-11-21 */
                from?: components["parameters"]["auditFrom"];
                /** @description Only entries before this time */
                to?: components["parameters"]["auditTo"];
                limit?: components["parameters"]["limit"];
                /** @description next_cursor of the previous page */
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
                    "application/json": components["schemas"]["AuditPage"];
                };
            };
        };
    };
    exportAudit: {
        parameters: {
            query?: {
                /** @description The name of a token */
                actor?: components["parameters"]["auditActor"];
                /** @description The id of a token */
                token?: components["parameters"]["auditToken"];
                /** @description The path's template */
                route?: components["parameters"]["auditRoute"];
                /** @description This path and those below it */
                object?: components["parameters"]["auditObject"];
                /** @description 403, or 4xx for a class */
                status?: components["parameters"]["auditStatus"];
                /** @description Only entries at this time or later: RFC 3339, or a UTC day, 2026-11-21 */
                from?: components["parameters"]["auditFrom"];
                /** @description Only entries before this time */
                to?: components["parameters"]["auditTo"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Lines */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": string;
                };
            };
        };
    };
}
