/**
 * Views for people and programs that query the tables, for whom docs/tables.md is written. They run with the rights of
 * whoever has migrated the tables: who may read a view need not be allowed to read the tables behind it, which hold
 * secrets.
 */
const VIEW = 'CREATE OR REPLACE SQL SECURITY DEFINER VIEW';

/** The stored text of a payload: inside the row of its job, or in the pieces of its body. */
const TEXT = `IF(j.payload_blob IS NULL, j.payload, CONCAT(b.body, COALESCE(
    (SELECT GROUP_CONCAT(p.body ORDER BY p.part SEPARATOR '') FROM orchestrator_blob_parts p WHERE p.blob_id = b.id), '')))`;
const BYTES = `CAST(IF(j.payload_blob IS NULL, OCTET_LENGTH(j.payload), JSON_VALUE(j.ask, '$.payload.bytes')) AS UNSIGNED)`;

/** `sealed` and `composed` texts begin as no JSON text does (kit/seal.ts, model/composed.ts). */
const START = 'LEFT(IF(j.payload_blob IS NULL, j.payload, b.body), 9)';
const FORM = `CASE ${START} WHEN 'sealed:1:' THEN 'sealed' WHEN 'composed:' THEN 'composed' ELSE 'json' END`;

/** The server cuts a text that is longer than its settings allow: none is shown then, rather than a part of one. */
const PAYLOADS = `${VIEW} orchestrator_job_payloads AS
  SELECT j.uid, j.tenant, j.job_id, j.type, j.status, ${FORM} AS form, ${BYTES} AS payload_bytes,
    IF(OCTET_LENGTH(${TEXT}) = ${BYTES}, CONVERT(${TEXT} USING utf8mb4), NULL) AS payload
  FROM orchestrator_jobs j LEFT JOIN orchestrator_blobs b ON b.id = j.payload_blob`;

/** Without the token, which is all that a caller needs to keep or to release a lease. */
const LEASES = `${VIEW} orchestrator_lease_list AS
  SELECT agent_name, gpu_index, mode, created_at, expires_at, last_heartbeat, metadata FROM orchestrator_leases`;

/** The same with the time at which a lease expired, in place of that view. */
export const LEASES_AND_ENDS = `${VIEW} orchestrator_lease_list AS
  SELECT agent_name, gpu_index, mode, created_at, expires_at, last_heartbeat, ended_at, metadata
  FROM orchestrator_leases`;

/** Kinds of records without secrets. Of all others only the cause of a change is shown. */
const SHOWN = "'ask', 'job', 'attempt', 'model', 'session', 'batch', 'schedule', 'governance', 'limits'";

/** The subject of a lease is its token; the record of a consumer has its id. */
const AUDIT = `${VIEW} orchestrator_audit_log AS
  SELECT id, ts, event_type, IF(event_type LIKE 'lease:%', NULL, subject) AS subject,
    IF(SUBSTRING_INDEX(event_type, ':', 1) IN (${SHOWN}), details,
      JSON_OBJECT('cause', JSON_EXTRACT(details, '$.cause'))) AS details
  FROM orchestrator_audit`;

export const VIEWS: readonly string[] = [PAYLOADS, LEASES, AUDIT];
