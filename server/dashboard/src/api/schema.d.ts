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
        /** Database, its disk, the checkpoints' disks and the queue, each named */
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
        /** What submitting would do: checks, configuration, command */
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
        /** Ways in which this server starts runs, by name */
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
        /** Delete a run that is over; for 7 days it can be had back */
        delete: operations["deleteRun"];
        options?: never;
        head?: never;
        /** Name, labels, notes, archived, restarts; take a deletion back */
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
        /** Stop, with a checkpoint or at once */
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
        /** Queue the next attempt of a run that is over */
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
        /** Ask for a checkpoint after the current update; 429 too_soon within 10 s of the last wish */
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
        /** A rank's sign of life; the answer has orders. 409 stale_attempt: it must end */
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
        /** Hosts from which ranks reported within a day, by name */
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
        /** Many runs times keys on common rows, so that they can be compared */
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
        /** A validation that was made beside the training, of another set say */
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
        /** Which checkpoints the server keeps, and how much of the log */
        get: operations["showRetention"];
        /** Set the policy; applied within seconds to checkpoints below the server's roots */
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
        /** Remove its files; refused if pinned, best, the last complete one or being read */
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
        /** Keep it from every retention, the worker's too */
        put: operations["pinCheckpoint"];
        post?: never;
        /** Leave it to retention again */
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
         * Translate lines of text with it, in a process of its own
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
        /** All files and SHA256SUMS as a tar archive of known length; Range, If-Range, If-Match and If-None-Match are honoured */
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
        /** One file of the manifest; Range, If-Range, If-Match and If-None-Match are honoured */
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
    "/api/v1/admin/backup": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How the newest backup since the start stands */
        get: operations["showBackup"];
        put?: never;
        /** Copy the database, checked, into DATA/backups while it is used */
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
        /** Prometheus' text format 0.0.4; with --open-metrics no token is needed from the server's own machine */
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
        /** The live stream; 503 too_many_streams: 8 of a token, 10,000 in all */
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
        /** Makes a token; its secret is shown in this answer and never again */
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
        /** Whose token this is and what it may do; where none are wanted, an administrator without an id */
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
        /** Ends a token; what it has open ends within 15 s */
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
        /** Who wrote what, newest first */
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
        /** All entries of the audit that match, oldest first, each an object of AuditEntry on a line */
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
            /** @description With ingest one of run, run_prefix and any_run; the one run it may report for */
            run?: string | null;
            /** @description What the names of the runs that it may report for begin with */
            run_prefix?: string | null;
            /** @description True: whatever runs it begins itself */
            any_run?: boolean | null;
            expires_in_seconds?: number | null;
        };
        Token: {
            id: string;
            name: string;
            /** @enum {unknown} */
            scope: "read" | "ingest" | "operate" | "admin";
            /** @description The one run it may report for */
            run: string | null;
            /** @description What the names of the runs that it may report for begin with */
            run_prefix: string | null;
            created_at: components["schemas"]["Time"];
            created_by: string;
            expires_at: components["schemas"]["Time"];
            last_used_at: components["schemas"]["Time"];
            /** @description In the answer that made it; null when that is replayed */
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
            /** @description Requests that the entry stands for: repeated ingest and refusals are joined. The other members are the first one's */
            count: number;
            /** @description The token's name, or anonymous */
            actor: string;
            /** @description Its id */
            token: string | null;
            method: string;
            /** @description The path's template */
            route: string;
            /** @description The path that was asked for or made */
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
             * @description Room for one more checkpoint of each run that is not over
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
            /** @description Instead of the configuration's */
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
            /** @description The id of a checkpoint to begin with */
            resume_from?: string | null;
            labels?: components["schemas"]["Labels"] | null;
            notes?: string | null;
        };
        Validation: {
            profile: string;
            world_size: number;
            /** @description Resolved YAML */
            config: string;
            /** @description Program and arguments; RUN stands for the id */
            command: string[];
            max_updates: number | null;
            /** @description Of a rank while it computes an update; null where the data is not at hand, whose vocabulary decides */
            memory: components["schemas"]["MemoryEstimate"] | null;
            /** @description Median of the newest updates of step_ms_run */
            step_ms: number | null;
            /** @description The newest run with the same model, precision, tokens, threads and ranks on the same hosts */
            step_ms_run: string | null;
            /** @description What cannot be told beforehand, and why */
            not_estimated: string[];
        };
        /** @description Bytes by purpose, as in step records; what ranks of a host share counts for each */
        MemoryEstimate: {
            /** @description Learned numbers */
            parameters: number;
            /** @description Of the micro-batch that is assumed */
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
             * @description false takes a deletion back
             * @enum {unknown}
             */
            deleted?: false | null;
            max_restarts?: number | null;
        };
        /** @description RFC 7396. Labels that are not named stay, those that are null are removed; notes and labels may be null as a whole */
        RunPatch: {
            name?: string;
            labels?: {
                [key: string]: string | null;
            } | null;
            notes?: string | null;
            archived?: boolean;
            /**
             * @description false takes a deletion back
             * @constant
             */
            deleted?: false;
            max_restarts?: number;
        };
        /** @description The body may be left out */
        Nothing: Record<string, never>;
        Stop: {
            /**
             * @default checkpoint
             * @enum {unknown}
             */
            mode: "checkpoint" | "now" | null;
            /**
             * @description Until it is ended by force
             * @default 300
             */
            grace_s: number | null;
        };
        Resume: {
            /**
             * @description The id of one of the run's, or latest
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
        /** @description Members that the server does not know are passed over */
        Heartbeat: {
            attempt: number;
            /** @default 0 */
            rank: number;
            host: string;
            pid?: number;
            update?: number;
            /** @description Since the last update was done */
            since_update_s?: number;
            /** @description The newest wish for a checkpoint that was carried out */
            checkpoint_done?: number;
            resident_bytes?: number;
            /** @description What the driver last told of the rank's GPU; what it does not tell is absent */
            gpu?: {
                utilization_percent?: number;
                memory_used_bytes?: number;
                clock_mhz?: number;
                power_w?: number;
                power_limit_w?: number;
            } | null;
            /** @description This and what follows: of the host */
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
                /** @description Of Slurm */
                job: string | null;
                world_size: number | null;
                /** @description Folder of the checkpoint that was asked for */
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
            /** @description From which something came within the last minute */
            ranks: {
                run: string;
                rank: number;
                gpu: components["schemas"]["Gpu"];
            }[];
        };
        /** @description As the rank's newest heartbeat tells; null without one, or where nothing is known of it */
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
            /** @description Since the last record came */
            record_age_ms: number;
            stale_since: components["schemas"]["Time"];
            detail: string;
            version: string;
            world_size: number;
            /** @description Of the current attempt's ranks, each once */
            hosts: string[];
            parameters: number;
            max_updates: number;
            /** @description external when it was started by hand */
            profile: string;
            labels: components["schemas"]["Labels"];
            notes: string;
            archived: boolean;
            deleted_at: components["schemas"]["Time"];
            /** @description Since it was submitted or resumed; null when started by hand */
            restarts: number | null;
            max_restarts: number | null;
            update: number;
            epoch: components["schemas"]["Number"];
            loss: components["schemas"]["Number"];
            nll: components["schemas"]["Number"];
            learning_rate: components["schemas"]["Number"];
            step_ms: components["schemas"]["Number"];
            /** @description Of all ranks; null where the records do not tell */
            target_tokens_per_second: number | null;
            /** @description The same as progress.seconds_left */
            eta_seconds: number | null;
            progress: components["schemas"]["Progress"];
            health: components["schemas"]["Health"];
            best: components["schemas"]["Eval"] | null;
            last_eval: components["schemas"]["Eval"] | null;
            /** @description Resolved YAML; only in the answer for one run */
            config?: string;
        };
        Progress: {
            /** @description Of the training, by whichever end is nearer; null where it is not known */
            fraction: number | null;
            /** @description Null where it is not known, and for a run that is silent or does not train */
            seconds_left: number | null;
            /** @description What ends the training: 20 epochs, 55 minutes, 100,000 updates; empty where it is not known */
            end: string;
            /** @description Early stopping may end it sooner */
            at_latest: boolean;
        };
        /** @description How the run is doing, at a glance */
        Health: {
            level: components["schemas"]["HealthLevel"];
            /** @description The text of the worst part */
            headline: string;
            /** @description What to do about it */
            action: string | null;
            /** @description In the order of topics; a topic of which nothing is known, or that does not matter, is absent */
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
         * @description unknown where nothing can be said yet, or nothing needs to be, as of a run that was stopped on request
         * @enum {unknown}
         */
        HealthLevel: "good" | "warning" | "bad" | "unknown";
        Verdict: {
            /** @enum {unknown} */
            verdict: "unknown" | "healthy" | "compute_bound" | "network_bound" | "data_bound" | "straggler_bound" | "checkpoint_bound" | "evaluation_bound" | "host_contended";
            level: components["schemas"]["HealthLevel"];
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
            kind: "nan" | "stall" | "throughput_drop" | "loss_spike" | "disk_low" | "worker_lost" | "ranks_differ";
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
            kind: "nan" | "stall" | "throughput_drop" | "loss_spike" | "disk_low" | "worker_lost" | "ranks_differ";
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
        RunPartPage: {
            fields: string[];
            items: Record<string, never>[];
            next_cursor: components["schemas"]["Cursor"];
        };
        /** @description Members that the server does not know, here and in records, are passed over */
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
            /** @description Of the likeliest piece at each place, given the reference before it; null from workers that did not count it */
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
            /** @description After which the model was as evaluated */
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
                 * @description silent: no heartbeat for 10 s; ended: its attempt is over
                 * @enum {unknown}
                 */
                state: "starting" | "training" | "silent" | "ended";
                update: number;
                records: number;
                /** @description Sequence numbers below the newest that never came */
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
            /** @description Renderings of a line; at most beam */
            nbest?: number | null;
            length_penalty?: number | null;
        };
        Translations: {
            checkpoint: string;
            /** @description Of the search */
            ms: number;
            /** @description One a line, in their order */
            items: {
                hyp: string;
                /** @description Log-probability over the length penalty; null for a line without tokens */
                score: number | null;
                source_pieces: number;
                /** @description The best first */
                nbest: {
                    hyp: string;
                    score: number;
                    log_probability: number;
                    /** @description False: cut at the longest allowed */
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
            /** @description Of the program that wrote it; null from older workers */
            version: string | null;
            /** @description Ranks that trained it; null from older workers */
            world_size: number | null;
            /** @description Of its config.yaml */
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
        /** @description A checkpoint stays if any wish wants it; without wishes all stay. Above max_bytes the oldest go */
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
            /** @description Why it failed */
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
            /** @description Every row is one place; otherwise a stretch of the given width */
            exact: boolean;
            width: number;
            /** @description Where each row begins */
            at: number[];
            /** @description Runs in the order asked for, of each all keys; null where a series has no point in a row */
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
        /** @description A request that is sent again with the same key within 24 hours gets the first answer again */
        idempotencyKey: string;
        /** @description Entity tags of the state meant; 412 where it is another by now. A weak tag never matches */
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
        /** @description Only what came at this time or later: RFC 3339, or a day, 2026-11-21, which begins in UTC */
        auditFrom: string;
        /** @description Only what came before this time */
        auditTo: string;
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
                /** @description One or several, comma-separated */
                state?: components["schemas"]["State"][];
                /** @description Part of a name or id */
                q?: string;
                /** @description NAME or NAME=VALUE */
                label?: string;
                /** @description Milliseconds since 1970 */
                created_after?: number;
                /** @description Milliseconds since 1970; those of which something came after that */
                updated_after?: number;
                archived?: boolean;
                sort?: "-created_at" | "created_at" | "-updated_at";
                /** @description Members of a run, comma-separated; absent for all */
                fields?: string;
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
                    "application/json": components["schemas"]["RunPage"] | components["schemas"]["RunPartPage"];
                };
            };
        };
    };
    submitRun: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key within 24 hours gets the first answer again */
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
            /** @description It is well */
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
                /** @description next_cursor of the page before */
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
                /** @description What becomes of its files after the 7 days */
                checkpoints?: "keep" | "delete";
            };
            header?: {
                /** @description Entity tags of the state meant; 412 where it is another by now. A weak tag never matches */
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
                /** @description Entity tags of the state meant; 412 where it is another by now. A weak tag never matches */
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
            /** @description As it is now */
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
            /** @description Asked */
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
                /** @description A request that is sent again with the same key within 24 hours gets the first answer again */
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
                /** @description A request that is sent again with the same key within 24 hours gets the first answer again */
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
            /** @description Asked */
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
            /** @description Taken */
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
                /** @description next_cursor of the page before */
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
                /** @description What from and to mean */
                x?: "step" | "wall" | "rel";
                from?: number;
                to?: number;
                /** @description raw has every point and takes up to 1,000,000 here */
                points?: number;
                agg?: "minmax" | "avg" | "lttb" | "raw";
                /** @description A rank or all */
                rank?: string;
                /** @description Goes before Accept */
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
            /** @description The client has it */
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
            /** @description In the order of keys, each once; a key that no step has is empty */
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
        };
    };
    addEval: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key within 24 hours gets the first answer again */
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
            /** @description Kept */
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
                /** @description The last of them, where neither after nor cursor is given */
                tail?: number;
                /** @description A line's number */
                after?: number;
                /** @description Where after or cursor is given; lines are short, hence more than elsewhere */
                limit?: number;
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
                    "application/x-ndjson": string;
                    "text/plain": string;
                };
            };
        };
    };
    listCheckpoints: {
        parameters: {
            query?: {
                /** @description List removed ones too */
                removed?: boolean;
                /** @description Not removed and with files */
                complete?: boolean;
                pinned?: boolean;
                /** @description Greatest first */
                sort?: "step" | "bleu";
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
            /** @description The client has it */
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
                /** @description Entity tags of the state meant; 412 where it is another by now. A weak tag never matches */
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
            /** @description The client has it */
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
                /** @description Entity tags of the state meant; 412 where it is another by now. A weak tag never matches */
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
                /** @description Entity tags of the state meant; 412 where it is another by now. A weak tag never matches */
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
                /** @description Entity tags of the state meant; 412 where it is another by now. A weak tag never matches */
                "If-Match"?: components["parameters"]["ifMatch"];
            };
            path: {
                checkpoint: components["parameters"]["checkpoint"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Not pinned */
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
                /** @description Entity tags of the state meant; 412 where it is another by now. A weak tag never matches */
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
        };
    };
    downloadFile: {
        parameters: {
            query?: never;
            header?: {
                /** @description Entity tags of the state meant; 412 where it is another by now. A weak tag never matches */
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
            /** @description Begun */
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
        };
    };
    listTokens: {
        parameters: {
            query?: {
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
                    "application/json": components["schemas"]["TokenPage"];
                };
            };
        };
    };
    makeToken: {
        parameters: {
            query?: never;
            header?: {
                /** @description A request that is sent again with the same key within 24 hours gets the first answer again */
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
            /** @description Made */
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
            /** @description Gone */
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
                /** @description Only what came at this time or later: RFC 3339, or a day, 2026-11-21, which begins in UTC */
                from?: components["parameters"]["auditFrom"];
                /** @description Only what came before this time */
                to?: components["parameters"]["auditTo"];
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
                /** @description Only what came at this time or later: RFC 3339, or a day, 2026-11-21, which begins in UTC */
                from?: components["parameters"]["auditFrom"];
                /** @description Only what came before this time */
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
