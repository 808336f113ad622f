CREATE TABLE `orchestrator_attempts` (
  `token` varchar(220) NOT NULL,
  `uid` varchar(200) NOT NULL,
  `n` int(10) unsigned NOT NULL,
  `is_open` tinyint(4) NOT NULL,
  `record` longtext NOT NULL,
  PRIMARY KEY (`token`),
  KEY `by_job` (`uid`,`n`),
  KEY `by_open` (`is_open`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE `orchestrator_audit` (
  `id` bigint(20) unsigned NOT NULL,
  `ts` timestamp(6) NOT NULL DEFAULT current_timestamp(6),
  `event_type` varchar(128) NOT NULL,
  `details` longtext NOT NULL,
  `epoch` bigint(20) unsigned NOT NULL,
  `at_ms` bigint(20) unsigned NOT NULL,
  `subject` varchar(330) NOT NULL,
  PRIMARY KEY (`id`),
  KEY `by_subject` (`subject`,`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
INSERT INTO orchestrator_audit (id, ts, event_type, details, epoch, at_ms, subject) VALUES
(1, '2027-01-15 08:00:00.000000', 'brain:open', '{"cause":"open","after":{"v":1,"owner":"16b892fa144e272d","epoch":1,"nonce":"7ddd4276f40d97d5","attemptFloor":0}}', 1, 1800000000000, 'brain'),
(2, '2027-01-15 08:00:00.000000', 'model:registered', '{"cause":"registered","after":{"id":"chat","name":"chat","ref":"file:/models/chat.gguf","aliases":["assistant"],"sizeBytes":4000000000,"vramBytes":5000000000,"contextLength":8192,"slots":2,"v":1,"state":"active","createdAt":1800000000000,"updatedAt":1800000000000}}', 1, 1800000000000, 'chat'),
(3, '2027-01-15 08:00:00.000000', 'worker_pool:set:ann', '{"cause":{"is":"set","by":"ann"},"after":{"v":1,"provisioner":"managers","agent":"ann","model":"assistant","adapter":"/adapters/news.gguf","variant":"fp16","desired":1,"holdMs":0,"metadata":{"team":"news 🦊"},"serves":"chat","status":"starting","spawned":0,"startedAt":1800000000000,"by":"ann","at":1800000000000}}', 1, 1800000000000, 'warm'),
(4, '2027-01-15 08:00:00.000000', 'worker:start:kept for the worker pool warm', '{"cause":{"is":"start","why":{"is":"worker-pool","pool":"warm"}},"after":{"v":2,"pool":"box","device":0,"modelRef":"file:/models/chat.gguf","vramBytes":5000000000,"slots":2,"contextLength":8192,"workerPool":"warm","state":"starting","at":1800000000000,"why":{"is":"worker-pool","pool":"warm"},"tries":1}}', 1, 1800000000000, 'w-16b892fa-4'),
(5, '2027-01-15 08:00:00.000000', 'worker:ready', '{"cause":"ready","after":{"v":2,"pool":"box","device":0,"modelRef":"file:/models/chat.gguf","vramBytes":5000000000,"slots":2,"contextLength":8192,"workerPool":"warm","state":"running","registry":"memory of box","at":1800000000000,"why":{"is":"worker-pool","pool":"warm"},"tries":1}}', 1, 1800000000000, 'w-16b892fa-4'),
(6, '2027-01-15 08:00:00.000000', 'worker_pool:changed', '{"cause":"changed","after":{"v":1,"provisioner":"managers","agent":"ann","model":"assistant","adapter":"/adapters/news.gguf","variant":"fp16","desired":1,"holdMs":0,"metadata":{"team":"news 🦊"},"serves":"chat","status":"running","spawned":1,"startedAt":1800000000000,"by":"ann","at":1800000000000}}', 1, 1800000000000, 'warm'),
(7, '2027-01-15 08:00:00.000000', 'worker_pool:set:ann', '{"cause":{"is":"set","by":"ann"},"after":{"v":1,"provisioner":"external","desired":3,"holdMs":3600000,"status":"starting","spawned":0,"startedAt":1800000000000,"by":"ann","at":1800000000000}}', 1, 1800000000000, 'outside'),
(8, '2027-01-15 08:00:00.000000', 'worker_pool:heartbeat', '{"cause":"heartbeat","after":{"v":1,"provisioner":"external","desired":3,"holdMs":3600000,"status":"starting","spawned":2,"startedAt":1800000000000,"heartbeatAt":1800000000000,"by":"ann","at":1800000000000}}', 1, 1800000000000, 'outside'),
(9, '2027-01-15 08:00:00.000000', 'worker_pool:set:ann', '{"cause":{"is":"set","by":"ann"},"after":{"v":1,"provisioner":"external","desired":1,"holdMs":600000,"status":"starting","spawned":0,"startedAt":1800000000000,"by":"ann","at":1800000000000}}', 1, 1800000000000, 'full'),
(10, '2027-01-15 08:00:00.000000', 'worker_pool:heartbeat', '{"cause":"heartbeat","after":{"v":1,"provisioner":"external","desired":1,"holdMs":600000,"status":"running","spawned":1,"startedAt":1800000000000,"heartbeatAt":1800000000000,"by":"ann","at":1800000000000}}', 1, 1800000000000, 'full'),
(11, '2027-01-15 08:00:00.000000', 'worker_pool:set:ann', '{"cause":{"is":"set","by":"ann"},"after":{"v":1,"provisioner":"external","desired":1,"holdMs":600000,"status":"starting","spawned":0,"startedAt":1800000000000,"by":"ann","at":1800000000000}}', 1, 1800000000000, 'evicted'),
(12, '2027-01-15 08:00:00.000000', 'worker_pool:set:ann', '{"cause":{"is":"set","by":"ann"},"after":{"v":1,"provisioner":"external","desired":1,"holdMs":600000,"status":"starting","spawned":0,"startedAt":1800000000000,"by":"ann","at":1800000000000}}', 1, 1800000000000, 'stopped'),
(13, '2027-01-15 08:00:00.000000', 'worker_pool:set:ann', '{"cause":{"is":"set","by":"ann"},"after":{"v":1,"provisioner":"external","desired":1,"holdMs":600000,"status":"starting","spawned":0,"startedAt":1800000000000,"by":"ann","at":1800000000000}}', 1, 1800000000000, 'draining'),
(14, '2027-01-15 08:00:00.000000', 'worker_pool:set:ann', '{"cause":{"is":"set","by":"ann"},"after":{"v":1,"provisioner":"external","desired":1,"holdMs":600000,"status":"starting","spawned":0,"startedAt":1800000000000,"by":"ann","at":1800000000000}}', 1, 1800000000000, 'deleted'),
(15, '2027-01-15 08:00:00.000000', 'worker_pool:evict:ann', '{"cause":{"is":"evict","by":"ann"},"after":{"v":1,"provisioner":"external","desired":1,"holdMs":600000,"status":"evicted","spawned":0,"startedAt":1800000000000,"by":"ann","at":1800000000000}}', 1, 1800000000000, 'evicted'),
(16, '2027-01-15 08:00:00.000000', 'worker_pool:drain:ann', '{"cause":{"is":"drain","by":"ann"},"after":{"v":1,"provisioner":"external","desired":1,"holdMs":600000,"status":"draining","spawned":0,"startedAt":1800000000000,"drainBy":1800000000000,"by":"ann","at":1800000000000}}', 1, 1800000000000, 'stopped'),
(17, '2027-01-15 08:00:00.000000', 'worker_pool:evict:ann', '{"cause":{"is":"evict","by":"ann"},"after":{"v":1,"provisioner":"external","desired":1,"holdMs":600000,"status":"evicted","spawned":0,"startedAt":1800000000000,"by":"ann","at":1800000000000}}', 1, 1800000000000, 'deleted'),
(18, '2027-01-15 08:00:00.000000', 'brain:open', '{"cause":"open","after":{"v":1,"owner":"16b892fa144e272d","epoch":2,"attemptFloor":0,"nonce":"b381712eaaa0f2b1","openings":[{"epoch":1,"nonce":"7ddd4276f40d97d5"}]}}', 2, 1800000000000, 'brain'),
(19, '2027-01-15 08:00:00.000000', 'worker_pool:changed', '{"cause":"changed","after":{"drainBy":1800000000000,"v":1,"provisioner":"external","desired":1,"holdMs":600000,"status":"stopped","spawned":0,"startedAt":1800000000000,"by":"ann","at":1800000000000}}', 2, 1800000000000, 'stopped'),
(20, '2027-01-15 08:00:00.000000', 'worker_pool:heartbeat', '{"cause":"heartbeat","after":{"heartbeatAt":1800000002000,"v":1,"provisioner":"external","desired":1,"holdMs":600000,"status":"running","spawned":1,"startedAt":1800000000000,"by":"ann","at":1800000000000}}', 2, 1800000002000, 'draining'),
(21, '2027-01-15 08:00:00.000000', 'worker_pool:drain:bob', '{"cause":{"is":"drain","by":"bob"},"after":{"heartbeatAt":1800000002000,"drainBy":1800003602000,"v":1,"provisioner":"external","desired":1,"holdMs":600000,"status":"draining","spawned":1,"startedAt":1800000000000,"by":"bob","at":1800000002000}}', 2, 1800000002000, 'draining'),
(22, '2027-01-15 08:00:00.000000', 'worker_pool:deleted', '{"cause":"deleted","after":null}', 2, 1800000002000, 'deleted'),
(23, '2027-01-15 08:00:00.000000', 'worker_pool:set:bob', '{"cause":{"is":"set","by":"bob"},"after":{"heartbeatAt":1800000000000,"v":1,"provisioner":"external","desired":4,"holdMs":3600000,"status":"starting","spawned":2,"startedAt":1800000000000,"by":"bob","at":1800000002000}}', 2, 1800000002000, 'outside'),
(24, '2027-01-15 08:00:00.000000', 'policy:set:bob', '{"cause":{"is":"set","by":"bob"},"after":{"v":1,"by":"bob","why":"a quiet week","values":{"minWarmWorkersPerPool":1,"maxTotalWorkers":50},"at":1800000002000,"before":{"by":"start","why":"","at":0,"values":{}}}}', 2, 1800000002000, 'policy');

CREATE TABLE `orchestrator_blobs` (
  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `created_at` timestamp(6) NOT NULL DEFAULT current_timestamp(6),
  `body` longblob NOT NULL,
  `uid` varchar(200) DEFAULT NULL,
  `owner` varchar(340) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE `orchestrator_blob_parts` (
  `blob_id` bigint(20) unsigned NOT NULL,
  `part` int(10) unsigned NOT NULL,
  `body` longblob NOT NULL,
  PRIMARY KEY (`blob_id`,`part`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE `orchestrator_charges` (
  `at_ms` bigint(20) unsigned NOT NULL,
  `token` varchar(220) NOT NULL,
  `job_id` varchar(128) NOT NULL,
  `tenant` varchar(64) NOT NULL,
  `principal` varchar(255) NOT NULL,
  `submitted_by` varchar(255) NOT NULL,
  `session_id` varchar(255) DEFAULT NULL,
  `tags` text DEFAULT NULL,
  `type` varchar(128) NOT NULL,
  `model` varchar(1024) DEFAULT NULL,
  `seat` varchar(255) NOT NULL,
  `route` varchar(255) DEFAULT NULL,
  `root` varchar(128) NOT NULL,
  `ms` bigint(20) unsigned NOT NULL,
  `outcome` varchar(16) NOT NULL,
  `basis` varchar(16) NOT NULL,
  `cost` bigint(20) unsigned NOT NULL,
  `overrun` bigint(20) unsigned NOT NULL,
  `input` bigint(20) unsigned NOT NULL,
  `cache_read` bigint(20) unsigned NOT NULL,
  `cache_write` bigint(20) unsigned NOT NULL,
  `output` bigint(20) unsigned NOT NULL,
  `reasoning` bigint(20) unsigned NOT NULL,
  PRIMARY KEY (`at_ms`,`token`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE `orchestrator_epoch` (
  `id` tinyint(4) NOT NULL,
  `epoch` bigint(20) unsigned NOT NULL,
  `last_seq` bigint(20) unsigned NOT NULL,
  `last_at` bigint(20) unsigned NOT NULL,
  `node` varchar(255) DEFAULT NULL,
  `address` varchar(255) DEFAULT NULL,
  `expires_at` timestamp(6) NULL DEFAULT NULL,
  `brain` longtext DEFAULT NULL,
  `has_lock` tinyint(4) NOT NULL DEFAULT 0,
  `silent_ms` int(10) unsigned NOT NULL DEFAULT 0,
  `secret` varchar(64) DEFAULT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
INSERT INTO orchestrator_epoch (id, epoch, last_seq, last_at, node, address, expires_at, brain, has_lock, silent_ms, secret) VALUES
(1, 2, 24, 1800000002000, NULL, NULL, NULL, '{"v":1,"owner":"16b892fa144e272d","epoch":2,"attemptFloor":0,"nonce":"b381712eaaa0f2b1","openings":[{"epoch":1,"nonce":"7ddd4276f40d97d5"}]}', 0, 0, NULL);

CREATE TABLE `orchestrator_failures` (
  `id` varchar(330) NOT NULL,
  `seq` bigint(20) unsigned NOT NULL,
  `until_ms` bigint(20) unsigned NOT NULL,
  `record` longtext NOT NULL,
  PRIMARY KEY (`id`),
  KEY `by_order` (`seq`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE `orchestrator_jobs` (
  `uid` varchar(200) NOT NULL,
  `job_id` varchar(128) NOT NULL,
  `tenant` varchar(64) NOT NULL,
  `n` bigint(20) unsigned NOT NULL,
  `seq` bigint(20) unsigned NOT NULL,
  `type` varchar(128) NOT NULL,
  `payload` longtext NOT NULL,
  `status` enum('pending','claimed','running','done','failed','dead_letter','stale','cancelled','waiting') NOT NULL DEFAULT 'pending',
  `is_terminal` tinyint(4) NOT NULL,
  `principal` varchar(255) NOT NULL,
  `session_id` varchar(255) DEFAULT NULL,
  `job_key` varchar(255) DEFAULT NULL,
  `owner_pool` varchar(128) DEFAULT NULL,
  `attempts` int(10) unsigned NOT NULL DEFAULT 0,
  `created_at` timestamp(6) NOT NULL DEFAULT current_timestamp(6),
  `updated_at` timestamp(6) NULL DEFAULT NULL ON UPDATE current_timestamp(6),
  `ended_ms` bigint(20) unsigned DEFAULT NULL,
  `last_error` text DEFAULT NULL,
  `caller_chose_id` tinyint(4) NOT NULL,
  `payload_blob` bigint(20) unsigned DEFAULT NULL,
  `result_blob` bigint(20) unsigned DEFAULT NULL,
  `ask` longtext NOT NULL,
  `job` longtext NOT NULL,
  `batch_id` varchar(128) DEFAULT NULL,
  `tags` text DEFAULT NULL,
  `root_id` varchar(128) DEFAULT NULL,
  PRIMARY KEY (`uid`),
  KEY `by_order` (`tenant`,`is_terminal`,`n`),
  KEY `by_key` (`job_key`,`n`),
  KEY `by_session` (`session_id`,`n`),
  KEY `by_end` (`is_terminal`,`ended_ms`),
  KEY `by_batch` (`batch_id`,`n`),
  KEY `by_root` (`root_id`,`n`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE `orchestrator_leases` (
  `token` varchar(128) NOT NULL,
  `agent_name` varchar(255) NOT NULL,
  `gpu_index` int(11) DEFAULT NULL,
  `mode` enum('gpu','cpu') NOT NULL DEFAULT 'gpu',
  `created_at` timestamp(6) NOT NULL DEFAULT current_timestamp(6),
  `expires_at` timestamp(6) NULL DEFAULT NULL,
  `last_heartbeat` timestamp(6) NULL DEFAULT NULL,
  `metadata` longtext DEFAULT NULL,
  `record` longtext NOT NULL,
  PRIMARY KEY (`token`),
  KEY `idx_leases_agent` (`agent_name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE `orchestrator_records` (
  `kind` varchar(32) NOT NULL,
  `id` varchar(330) NOT NULL,
  `record` longtext NOT NULL,
  PRIMARY KEY (`kind`,`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
INSERT INTO orchestrator_records (kind, id, record) VALUES
('model', 'chat', '{"id":"chat","name":"chat","ref":"file:/models/chat.gguf","aliases":["assistant"],"sizeBytes":4000000000,"vramBytes":5000000000,"contextLength":8192,"slots":2,"v":1,"state":"active","createdAt":1800000000000,"updatedAt":1800000000000}'),
('policy', 'policy', '{"v":1,"by":"bob","why":"a quiet week","values":{"minWarmWorkersPerPool":1,"maxTotalWorkers":50},"at":1800000002000,"before":{"by":"start","why":"","at":0,"values":{}}}'),
('worker', 'w-16b892fa-4', '{"v":2,"pool":"box","device":0,"modelRef":"file:/models/chat.gguf","vramBytes":5000000000,"slots":2,"contextLength":8192,"workerPool":"warm","state":"running","registry":"memory of box","at":1800000000000,"why":{"is":"worker-pool","pool":"warm"},"tries":1}'),
('worker_pool', 'draining', '{"heartbeatAt":1800000002000,"drainBy":1800003602000,"v":1,"provisioner":"external","desired":1,"holdMs":600000,"status":"draining","spawned":1,"startedAt":1800000000000,"by":"bob","at":1800000002000}'),
('worker_pool', 'evicted', '{"v":1,"provisioner":"external","desired":1,"holdMs":600000,"status":"evicted","spawned":0,"startedAt":1800000000000,"by":"ann","at":1800000000000}'),
('worker_pool', 'full', '{"v":1,"provisioner":"external","desired":1,"holdMs":600000,"status":"running","spawned":1,"startedAt":1800000000000,"heartbeatAt":1800000000000,"by":"ann","at":1800000000000}'),
('worker_pool', 'outside', '{"heartbeatAt":1800000000000,"v":1,"provisioner":"external","desired":4,"holdMs":3600000,"status":"starting","spawned":2,"startedAt":1800000000000,"by":"bob","at":1800000002000}'),
('worker_pool', 'stopped', '{"drainBy":1800000000000,"v":1,"provisioner":"external","desired":1,"holdMs":600000,"status":"stopped","spawned":0,"startedAt":1800000000000,"by":"ann","at":1800000000000}'),
('worker_pool', 'warm', '{"v":1,"provisioner":"managers","agent":"ann","model":"assistant","adapter":"/adapters/news.gguf","variant":"fp16","desired":1,"holdMs":0,"metadata":{"team":"news 🦊"},"serves":"chat","status":"running","spawned":1,"startedAt":1800000000000,"by":"ann","at":1800000000000}');

CREATE TABLE `orchestrator_schema` (
  `id` tinyint(4) NOT NULL,
  `version` int(10) unsigned NOT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
INSERT INTO orchestrator_schema (id, version) VALUES
(1, 12);

CREATE TABLE `orchestrator_sessions` (
  `name` varchar(330) NOT NULL,
  `tenant` varchar(64) NOT NULL,
  `id` varchar(255) NOT NULL,
  `used_ms` bigint(20) unsigned NOT NULL,
  `record` longtext NOT NULL,
  PRIMARY KEY (`name`),
  KEY `by_use` (`tenant`,`used_ms`,`id`),
  KEY `by_age` (`used_ms`,`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE `orchestrator_session_keys` (
  `n` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `key_id` varchar(64) NOT NULL,
  `tenant` varchar(64) NOT NULL,
  `session_id` varchar(255) NOT NULL,
  `secret` binary(32) NOT NULL,
  PRIMARY KEY (`n`),
  UNIQUE KEY `by_id` (`key_id`),
  UNIQUE KEY `by_owner` (`tenant`,`session_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE `worker_pools` (
  `pool_id` varchar(128) NOT NULL,
  `agent_name` varchar(255) DEFAULT NULL,
  `model_id` varchar(255) DEFAULT NULL,
  `adapter` varchar(255) DEFAULT NULL,
  `desired_workers` int(11) NOT NULL DEFAULT 0,
  `spawned_workers` int(11) NOT NULL DEFAULT 0,
  `started_at` timestamp(6) NULL DEFAULT NULL,
  `last_heartbeat` timestamp(6) NULL DEFAULT NULL,
  `status` enum('starting','running','draining','stopped','evicted') NOT NULL DEFAULT 'starting',
  `hold_seconds` int(11) NOT NULL DEFAULT 600,
  `metadata` longtext DEFAULT NULL,
  PRIMARY KEY (`pool_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
INSERT INTO worker_pools (pool_id, agent_name, model_id, adapter, desired_workers, spawned_workers, started_at, last_heartbeat, status, hold_seconds, metadata) VALUES
('draining', NULL, NULL, NULL, 1, 1, '2027-01-15 08:00:00.000000', '2027-01-15 08:00:02.000000', 'draining', 600, '{"provisioner":"external","by":"bob"}'),
('evicted', NULL, NULL, NULL, 1, 0, '2027-01-15 08:00:00.000000', NULL, 'evicted', 600, '{"provisioner":"external","by":"ann"}'),
('full', NULL, NULL, NULL, 1, 1, '2027-01-15 08:00:00.000000', '2027-01-15 08:00:00.000000', 'running', 600, '{"provisioner":"external","by":"ann"}'),
('outside', NULL, NULL, NULL, 4, 2, '2027-01-15 08:00:00.000000', '2027-01-15 08:00:00.000000', 'starting', 3600, '{"provisioner":"external","by":"bob"}'),
('stopped', NULL, NULL, NULL, 1, 0, '2027-01-15 08:00:00.000000', NULL, 'stopped', 600, '{"provisioner":"external","by":"ann"}'),
('warm', 'ann', 'assistant', '/adapters/news.gguf', 1, 1, '2027-01-15 08:00:00.000000', NULL, 'running', 0, '{"team":"news 🦊","provisioner":"managers","variant":"fp16","serves":"chat","by":"ann"}');
