import type { components } from './schema';

/// The types of the server's responses, generated from server/api/openapi.yaml into schema.d.ts
/// by `npm run types`, so that page and server agree.
/// Non-finite numbers are null.
export type Schemas = components['schemas'];

/// The contract allows null for any time; these times are always present.
type Told<T, K extends keyof T> = Omit<T, K> & Record<K, string>;
export type Evaluation = Schemas['Eval'];
export type Difference = Schemas['RunComparison']['items'][number];
export type Run = Told<Schemas['Run'], 'created_at' | 'started_at' | 'updated_at'>;
export type Rank = Schemas['RankPage']['items'][number];
export type Checkpoint = Schemas['Checkpoint'];
export type Export = Schemas['Export'];
export type NewExport = Schemas['NewExport'];
export type Artifact = Schemas['Artifact'];
export type TraceRequest = Schemas['TraceRequest'];
export type LogLine = Told<Schemas['LogPage']['items'][number], 'time'>;
export type SeriesAnswer = Schemas['Series'];
export type MetricKey = Schemas['KeyPage']['items'][number];
export type AlertItem = Told<Schemas['Alert'], 'raised_at'>;
export type AlertRule = Schemas['AlertRule'];
export type Webhook = Told<Schemas['Webhook'], 'created_at'>;
export type DeliveryItem = Schemas['Delivery'];
export type NodeItem = Schemas['Node'];
export type WhatIfAnswer = Schemas['WhatIf'];
export type StepParts = Schemas['StepParts'];
export type StepSetup = Schemas['StepSetup'];
export type Verdict = Schemas['Verdict'];
export type Evidence = Schemas['Evidence'];
export type Transition = Told<Schemas['TransitionPage']['items'][number], 'time'>;
export type Attempt = Schemas['AttemptPage']['items'][number];
export type End = Told<Schemas['EndPage']['items'][number], 'sampled_until'>;
export type Profile = Schemas['ProfilePage']['items'][number];
export type TokenSelf = Schemas['OwnToken'];
export type TokenItem = Told<Schemas['Token'], 'created_at'>;
export type AuditEntry = Told<Schemas['AuditEntry'], 'time' | 'last_time'>;
