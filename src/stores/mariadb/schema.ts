/**
 * The tables, as a list of migration steps that only grows. A step may be cut short at any statement and run again.
 *
 * Texts that name things are compared byte by byte and without padding: `key` and `KEY ` are two keys. Times that the
 * engine sets are milliseconds; times that the database sets by itself are UTC with microseconds.
 */
import { LEASES_AND_ENDS, VIEWS } from './reading-views.ts';

const NAME = (chars: number): string => `VARCHAR(${chars}) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin`;
const TABLE = 'ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin';
const NOW = 'TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)';

/** Lengths of the text columns that are searched, in characters. */
export const CHARS = {
  uid: 200,
  id: 128,
  tenant: 64,
  token: 220,
  text: 255,
  failure: 330,
  record: 330,
  owner: 340,
  model: 1024,
} as const;

export const JOBS = `CREATE TABLE IF NOT EXISTS orchestrator_jobs (
  uid ${NAME(CHARS.uid)} NOT NULL PRIMARY KEY,
  job_id ${NAME(CHARS.id)} NOT NULL,
  tenant ${NAME(CHARS.tenant)} NOT NULL,
  n BIGINT UNSIGNED NOT NULL,
  seq BIGINT UNSIGNED NOT NULL,
  type ${NAME(CHARS.id)} NOT NULL,
  payload LONGTEXT NOT NULL,
  status ENUM('pending','claimed','running','done','failed','dead_letter','stale','cancelled') NOT NULL,
  is_terminal TINYINT NOT NULL,
  principal ${NAME(CHARS.text)} NOT NULL,
  session_id ${NAME(CHARS.text)} NULL,
  job_key ${NAME(CHARS.text)} NULL,
  owner_pool ${NAME(CHARS.id)} NULL,
  attempts INT UNSIGNED NOT NULL DEFAULT 0,
  created_at ${NOW},
  updated_at TIMESTAMP(6) NULL ON UPDATE CURRENT_TIMESTAMP(6),
  ended_ms BIGINT UNSIGNED NULL,
  last_error TEXT NULL,
  caller_chose_id TINYINT NOT NULL,
  payload_blob BIGINT UNSIGNED NULL,
  result_blob BIGINT UNSIGNED NULL,
  ask LONGTEXT NOT NULL,
  job LONGTEXT NOT NULL,
  KEY by_order (tenant, is_terminal, n),
  KEY by_key (job_key, n),
  KEY by_session (session_id, n),
  KEY by_end (is_terminal, ended_ms),
  KEY by_payload_blob (payload_blob),
  KEY by_result_blob (result_blob)
) ${TABLE}`;

/** Step n brings the tables from version n to n + 1. */
export const MIGRATIONS: readonly (readonly string[])[] = [
  [
    `CREATE TABLE IF NOT EXISTS orchestrator_epoch (
      id TINYINT NOT NULL PRIMARY KEY,
      epoch BIGINT UNSIGNED NOT NULL,
      last_seq BIGINT UNSIGNED NOT NULL,
      last_at BIGINT UNSIGNED NOT NULL,
      node ${NAME(CHARS.text)} NULL,
      address ${NAME(CHARS.text)} NULL,
      expires_at TIMESTAMP(6) NULL,
      brain LONGTEXT NULL
    ) ${TABLE}`,
    'INSERT IGNORE INTO orchestrator_epoch (id, epoch, last_seq, last_at) VALUES (1, 0, 0, 0)',
    JOBS,
    `CREATE TABLE IF NOT EXISTS orchestrator_attempts (
      token ${NAME(CHARS.token)} NOT NULL PRIMARY KEY,
      uid ${NAME(CHARS.uid)} NOT NULL,
      n INT UNSIGNED NOT NULL,
      is_open TINYINT NOT NULL,
      record LONGTEXT NOT NULL,
      KEY by_job (uid, n),
      KEY by_open (is_open)
    ) ${TABLE}`,
    `CREATE TABLE IF NOT EXISTS orchestrator_failures (
      id ${NAME(CHARS.failure)} NOT NULL PRIMARY KEY,
      seq BIGINT UNSIGNED NOT NULL,
      until_ms BIGINT UNSIGNED NOT NULL,
      record LONGTEXT NOT NULL,
      KEY by_order (seq)
    ) ${TABLE}`,
    `CREATE TABLE IF NOT EXISTS orchestrator_blobs (
      id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
      created_at ${NOW},
      body LONGBLOB NOT NULL
    ) ${TABLE}`,
    `CREATE TABLE IF NOT EXISTS orchestrator_audit (
      id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
      ts ${NOW},
      event_type VARCHAR(128) NOT NULL,
      details LONGTEXT NOT NULL,
      epoch BIGINT UNSIGNED NOT NULL,
      at_ms BIGINT UNSIGNED NOT NULL,
      subject ${NAME(CHARS.failure)} NOT NULL,
      KEY by_subject (subject, id),
      KEY by_time (at_ms)
    ) ${TABLE}`,
  ],
  [
    // has_lock and silent_ms are set by the leader's last renewal; nodes know each other by the secret.
    `ALTER TABLE orchestrator_epoch
      ADD COLUMN IF NOT EXISTS has_lock TINYINT NOT NULL DEFAULT 0,
      ADD COLUMN IF NOT EXISTS silent_ms INT UNSIGNED NOT NULL DEFAULT 0,
      ADD COLUMN IF NOT EXISTS secret VARCHAR(64) NULL`,
    `CREATE TABLE IF NOT EXISTS orchestrator_leases (
      token ${NAME(CHARS.id)} NOT NULL PRIMARY KEY,
      agent_name ${NAME(CHARS.text)} NOT NULL,
      gpu_index INT NULL,
      mode ENUM('gpu','cpu') NOT NULL,
      created_at ${NOW},
      expires_at TIMESTAMP(6) NULL,
      last_heartbeat TIMESTAMP(6) NULL,
      metadata LONGTEXT NULL,
      record LONGTEXT NOT NULL,
      KEY by_agent (agent_name)
    ) ${TABLE}`,
    `CREATE TABLE IF NOT EXISTS orchestrator_blob_parts (
      blob_id BIGINT UNSIGNED NOT NULL,
      part INT UNSIGNED NOT NULL,
      body LONGBLOB NOT NULL,
      PRIMARY KEY (blob_id, part)
    ) ${TABLE}`,
    `CREATE TABLE IF NOT EXISTS worker_pools (
      pool_id ${NAME(CHARS.id)} NOT NULL PRIMARY KEY,
      agent_name ${NAME(CHARS.text)} NULL,
      model_id ${NAME(CHARS.text)} NULL,
      adapter ${NAME(CHARS.text)} NULL,
      desired_workers INT NOT NULL DEFAULT 0,
      spawned_workers INT NOT NULL DEFAULT 0,
      started_at TIMESTAMP(6) NULL,
      last_heartbeat TIMESTAMP(6) NULL,
      status ENUM('starting','running','draining','stopped','evicted') NOT NULL DEFAULT 'starting',
      hold_seconds INT NOT NULL DEFAULT 600,
      metadata LONGTEXT NULL
    ) ${TABLE}`,
  ],
  [
    // Models, sessions, pools, workers and other kinds of which there are few; read only when a node begins to lead.
    `CREATE TABLE IF NOT EXISTS orchestrator_records (
      kind VARCHAR(32) NOT NULL,
      id ${NAME(CHARS.record)} NOT NULL,
      record LONGTEXT NOT NULL,
      PRIMARY KEY (kind, id)
    ) ${TABLE}`,
  ],
  [
    // A body names its job, so that jobs need no index by their bodies: most jobs have none, and paid for two entries.
    // A leader of an older version would not write these names, so its lead ends here.
    `UPDATE orchestrator_epoch SET epoch = epoch + 1, node = NULL, address = NULL, expires_at = NULL, has_lock = 0
      WHERE id = 1 AND epoch > 0`,
    `ALTER TABLE orchestrator_blobs ADD COLUMN IF NOT EXISTS uid ${NAME(CHARS.uid)} NULL`,
    `UPDATE orchestrator_blobs b JOIN orchestrator_jobs j ON j.payload_blob = b.id SET b.uid = j.uid`,
    `UPDATE orchestrator_blobs b JOIN orchestrator_jobs j ON j.result_blob = b.id SET b.uid = j.uid`,
    `ALTER TABLE orchestrator_jobs DROP KEY IF EXISTS by_payload_blob, DROP KEY IF EXISTS by_result_blob`,
    // Audit rows are in the order of their instants: the primary key finds them.
    'ALTER TABLE orchestrator_audit DROP KEY IF EXISTS by_time',
  ],
  [
    // A leader of an older version would not write these columns, so its lead ends here.
    `UPDATE orchestrator_epoch SET epoch = epoch + 1, node = NULL, address = NULL, expires_at = NULL, has_lock = 0
      WHERE id = 1 AND epoch > 0`,
    `ALTER TABLE orchestrator_jobs
      ADD COLUMN IF NOT EXISTS batch_id ${NAME(CHARS.id)} NULL,
      ADD COLUMN IF NOT EXISTS tags TEXT NULL,
      ADD KEY IF NOT EXISTS by_batch (batch_id, n)`,
  ],
  [
    // A leader of an older version would not write charges, so its lead ends here.
    `UPDATE orchestrator_epoch SET epoch = epoch + 1, node = NULL, address = NULL, expires_at = NULL, has_lock = 0
      WHERE id = 1 AND epoch > 0`,
    // In the order of settlement. fillCharges() adds the charges of the attempts that were closed before.
    `CREATE TABLE IF NOT EXISTS orchestrator_charges (
      at_ms BIGINT UNSIGNED NOT NULL,
      token ${NAME(CHARS.token)} NOT NULL,
      job_id ${NAME(CHARS.id)} NOT NULL,
      tenant ${NAME(CHARS.tenant)} NOT NULL,
      principal ${NAME(CHARS.text)} NOT NULL,
      submitted_by ${NAME(CHARS.text)} NOT NULL,
      session_id ${NAME(CHARS.text)} NULL,
      tags TEXT NULL,
      type ${NAME(CHARS.id)} NOT NULL,
      model ${NAME(CHARS.model)} NULL,
      seat ${NAME(CHARS.text)} NOT NULL,
      route ${NAME(CHARS.text)} NULL,
      root ${NAME(CHARS.id)} NOT NULL,
      ms BIGINT UNSIGNED NOT NULL,
      outcome VARCHAR(16) NOT NULL,
      basis VARCHAR(16) NOT NULL,
      cost BIGINT UNSIGNED NOT NULL,
      overrun BIGINT UNSIGNED NOT NULL,
      input BIGINT UNSIGNED NOT NULL,
      cache_read BIGINT UNSIGNED NOT NULL,
      cache_write BIGINT UNSIGNED NOT NULL,
      output BIGINT UNSIGNED NOT NULL,
      reasoning BIGINT UNSIGNED NOT NULL,
      PRIMARY KEY (at_ms, token)
    ) ${TABLE}`,
  ],
  [
    // A leader of an older version does not know this state, so its lead ends here.
    `UPDATE orchestrator_epoch SET epoch = epoch + 1, node = NULL, address = NULL, expires_at = NULL, has_lock = 0
      WHERE id = 1 AND epoch > 0`,
    `ALTER TABLE orchestrator_jobs MODIFY COLUMN status
      ENUM('pending','claimed','running','done','failed','dead_letter','stale','cancelled','waiting') NOT NULL`,
  ],
  [
    // A leader of an older version would remove bodies that are parts of others, so its lead ends here.
    `UPDATE orchestrator_epoch SET epoch = epoch + 1, node = NULL, address = NULL, expires_at = NULL, has_lock = 0
      WHERE id = 1 AND epoch > 0`,
    // The job or the session that a body is kept for which is a part of others, such as the messages of a conversation.
    `ALTER TABLE orchestrator_blobs ADD COLUMN IF NOT EXISTS owner ${NAME(CHARS.owner)} NULL`,
  ],
  [
    // A leader of an older version would delete idle sessions and the bodies of archived ones, so its lead ends here.
    `UPDATE orchestrator_epoch SET epoch = epoch + 1, node = NULL, address = NULL, expires_at = NULL, has_lock = 0
      WHERE id = 1 AND epoch > 0`,
    // Sessions that have left memory; a name is that of their record in orchestrator_records.
    `CREATE TABLE IF NOT EXISTS orchestrator_sessions (
      name ${NAME(CHARS.record)} NOT NULL PRIMARY KEY,
      tenant ${NAME(CHARS.tenant)} NOT NULL,
      id ${NAME(CHARS.text)} NOT NULL,
      used_ms BIGINT UNSIGNED NOT NULL,
      record LONGTEXT NOT NULL,
      KEY by_use (tenant, used_ms, id),
      KEY by_age (used_ms, id)
    ) ${TABLE}`,
  ],
  [
    // A leader of an older version would not write this column, so its lead ends here.
    `UPDATE orchestrator_epoch SET epoch = epoch + 1, node = NULL, address = NULL, expires_at = NULL, has_lock = 0
      WHERE id = 1 AND epoch > 0`,
    `ALTER TABLE orchestrator_jobs
      ADD COLUMN IF NOT EXISTS root_id ${NAME(CHARS.id)} NULL,
      ADD KEY IF NOT EXISTS by_root (root_id, n)`,
    `UPDATE orchestrator_jobs SET root_id = JSON_VALUE(ask, '$.ancestors[0]'), updated_at = updated_at
      WHERE root_id IS NULL AND INSTR(ask, '"ancestors":["') > 0`,
  ],
  [
    // A leader of an older version would read sealed bodies as they are, so its lead ends here.
    `UPDATE orchestrator_epoch SET epoch = epoch + 1, node = NULL, address = NULL, expires_at = NULL, has_lock = 0
      WHERE id = 1 AND epoch > 0`,
    `CREATE TABLE IF NOT EXISTS orchestrator_session_keys (
      n BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
      key_id ${NAME(64)} NOT NULL,
      tenant ${NAME(CHARS.tenant)} NOT NULL,
      session_id ${NAME(CHARS.text)} NOT NULL,
      secret BINARY(32) NOT NULL,
      UNIQUE KEY by_id (key_id),
      UNIQUE KEY by_owner (tenant, session_id)
    ) ${TABLE}`,
  ],
  [
    // A leader of an older version would write the names of backends into owner_pool, so its lead ends here.
    `UPDATE orchestrator_epoch SET epoch = epoch + 1, node = NULL, address = NULL, expires_at = NULL, has_lock = 0
      WHERE id = 1 AND epoch > 0`,
    `ALTER TABLE orchestrator_leases
      MODIFY COLUMN mode ENUM('gpu','cpu') NOT NULL DEFAULT 'gpu',
      DROP KEY IF EXISTS by_agent,
      ADD KEY IF NOT EXISTS idx_leases_agent (agent_name)`,
    `ALTER TABLE orchestrator_jobs MODIFY COLUMN status
      ENUM('pending','claimed','running','done','failed','dead_letter','stale','cancelled','waiting')
      NOT NULL DEFAULT 'pending'`,
    `UPDATE orchestrator_jobs SET owner_pool = SUBSTRING(owner_pool, 11), updated_at = updated_at
      WHERE owner_pool LIKE 'consumers/%'`,
    ...VIEWS,
  ],
  [
    // A leader of an older version would take a lease that has ended for one that is held, so its lead ends here.
    `UPDATE orchestrator_epoch SET epoch = epoch + 1, node = NULL, address = NULL, expires_at = NULL, has_lock = 0
      WHERE id = 1 AND epoch > 0`,
    `ALTER TABLE orchestrator_leases
      ADD COLUMN IF NOT EXISTS ended_at TIMESTAMP(6) NULL,
      ADD KEY IF NOT EXISTS by_end (ended_at)`,
    LEASES_AND_ENDS,
  ],
];
