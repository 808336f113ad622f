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
INSERT INTO orchestrator_attempts (token, uid, n, is_open, record) VALUES
('done:1', 'done', 1, 0, '{"v":3,"job":"done","n":1,"backend":"consumers/words","registry":"consumers","state":"ended","epoch":1,"at":1800000000000,"acceptedAt":1800000000010,"endedAt":1800000000010,"outcome":"succeeded","isPulled":true,"holder":{"consumer":"words/ann","fence":2,"claim":1}}'),
('held:1', 'held', 1, 1, '{"v":3,"job":"held","n":1,"backend":"consumers/words","registry":"consumers","state":"accepted","epoch":1,"at":1800000000000,"acceptedAt":1800000000010,"isPulled":true,"holder":{"consumer":"words/ann","fence":2,"claim":2}}'),
('lost:1', 'lost', 1, 1, '{"v":3,"job":"lost","n":1,"backend":"consumers/words","registry":"consumers","state":"unknown","epoch":2,"at":1800000000000,"acceptedAt":1800000000010,"isPulled":true,"holder":{"consumer":"words/bob","fence":3,"claim":1},"isGone":true}'),
('unclaimed:1', 'unclaimed', 1, 1, '{"v":3,"job":"unclaimed","n":1,"backend":"consumers/words","registry":"consumers","state":"intended","epoch":2,"at":1800000000010,"isPulled":true}');

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
(2, '2027-01-15 08:00:00.000000', 'consumer:registered', '{"cause":"registered","after":{"v":1,"pool":"words","name":"ann","token":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","slots":2,"types":["count"],"labels":{"zone":"a"},"paid":false,"ttlMs":3600000,"fence":2,"state":"live","registeredAt":1800000000000,"seenAt":1800000000000}}', 1, 1800000000000, 'words/ann'),
(3, '2027-01-15 08:00:00.000000', 'consumer:registered', '{"cause":"registered","after":{"v":1,"pool":"words","name":"bob","token":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","slots":2,"types":["count"],"labels":{"zone":"a"},"paid":false,"ttlMs":3600000,"fence":3,"state":"live","registeredAt":1800000000000,"seenAt":1800000000000}}', 1, 1800000000000, 'words/bob'),
(4, '2027-01-15 08:00:00.000000', 'ask:submit', '{"cause":"submit","after":{"v":2,"id":"done","tenant":"default","n":4,"createdAt":1800000000000,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"count","priority":"batch","score":0,"weight":1,"max_tries":3,"backend":"consumers"},"payloadBytes":14,"hash":"44a0e9b35bc0ff448af683629b31b7f5bde08f44a9b0765ea33bb207e35497aa"}}', 1, 1800000000000, 'done'),
(5, '2027-01-15 08:00:00.000000', 'ask:submit', '{"cause":"submit","after":{"v":2,"id":"held","tenant":"default","n":5,"createdAt":1800000000000,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"count","priority":"batch","score":0,"weight":1,"max_tries":3,"backend":"consumers"},"payloadBytes":14,"hash":"79458892458c4ff2a61c30fa741eadd6e06099ca24e605d6e18beed586dc8809"}}', 1, 1800000000000, 'held'),
(6, '2027-01-15 08:00:00.000000', 'ask:submit', '{"cause":"submit","after":{"v":2,"id":"lost","tenant":"default","n":6,"createdAt":1800000000000,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"count","priority":"batch","score":0,"weight":1,"max_tries":3,"backend":"consumers","on_unknown":"hold"},"payloadBytes":14,"hash":"3fdb3904ccd3c506b950b44ea72f75a2741fec3ea22ce15659657cc5dff8a3e1"}}', 1, 1800000000000, 'lost'),
(7, '2027-01-15 08:00:00.000000', 'job:claim:only-class', '{"cause":{"is":"claim","pick":"only-class"},"after":{"v":2,"state":"claimed","attempt":1,"tries":0,"backend":"consumers/words"}}', 1, 1800000000000, 'done'),
(8, '2027-01-15 08:00:00.000000', 'attempt:claim:only-class', '{"cause":{"is":"claim","pick":"only-class"},"after":{"v":3,"job":"done","n":1,"backend":"consumers/words","registry":"consumers","state":"intended","epoch":1,"at":1800000000000,"isPulled":true}}', 1, 1800000000000, 'done:1'),
(9, '2027-01-15 08:00:00.000000', 'job:claim:only-class', '{"cause":{"is":"claim","pick":"only-class"},"after":{"v":2,"state":"claimed","attempt":1,"tries":0,"backend":"consumers/words"}}', 1, 1800000000000, 'held'),
(10, '2027-01-15 08:00:00.000000', 'attempt:claim:only-class', '{"cause":{"is":"claim","pick":"only-class"},"after":{"v":3,"job":"held","n":1,"backend":"consumers/words","registry":"consumers","state":"intended","epoch":1,"at":1800000000000,"isPulled":true}}', 1, 1800000000000, 'held:1'),
(11, '2027-01-15 08:00:00.000000', 'job:claim:only-class', '{"cause":{"is":"claim","pick":"only-class"},"after":{"v":2,"state":"claimed","attempt":1,"tries":0,"backend":"consumers/words"}}', 1, 1800000000000, 'lost'),
(12, '2027-01-15 08:00:00.000000', 'attempt:claim:only-class', '{"cause":{"is":"claim","pick":"only-class"},"after":{"v":3,"job":"lost","n":1,"backend":"consumers/words","registry":"consumers","state":"intended","epoch":1,"at":1800000000000,"isPulled":true}}', 1, 1800000000000, 'lost:1'),
(13, '2027-01-15 08:00:00.000000', 'attempt:claimed-by-consumer', '{"cause":"claimed-by-consumer","after":{"v":3,"job":"done","n":1,"backend":"consumers/words","registry":"consumers","state":"accepted","epoch":1,"at":1800000000000,"acceptedAt":1800000000010,"isPulled":true,"holder":{"consumer":"words/ann","fence":2,"claim":1}}}', 1, 1800000000010, 'done:1'),
(14, '2027-01-15 08:00:00.000000', 'job:started', '{"cause":"started","after":{"v":2,"state":"running","attempt":1,"tries":0,"backend":"consumers/words","startedAt":1800000000010}}', 1, 1800000000010, 'done'),
(15, '2027-01-15 08:00:00.000000', 'attempt:claimed-by-consumer', '{"cause":"claimed-by-consumer","after":{"v":3,"job":"held","n":1,"backend":"consumers/words","registry":"consumers","state":"accepted","epoch":1,"at":1800000000000,"acceptedAt":1800000000010,"isPulled":true,"holder":{"consumer":"words/ann","fence":2,"claim":2}}}', 1, 1800000000010, 'held:1'),
(16, '2027-01-15 08:00:00.000000', 'job:started', '{"cause":"started","after":{"v":2,"state":"running","attempt":1,"tries":0,"backend":"consumers/words","startedAt":1800000000010}}', 1, 1800000000010, 'held'),
(17, '2027-01-15 08:00:00.000000', 'attempt:claimed-by-consumer', '{"cause":"claimed-by-consumer","after":{"v":3,"job":"lost","n":1,"backend":"consumers/words","registry":"consumers","state":"accepted","epoch":1,"at":1800000000000,"acceptedAt":1800000000010,"isPulled":true,"holder":{"consumer":"words/bob","fence":3,"claim":1}}}', 1, 1800000000010, 'lost:1'),
(18, '2027-01-15 08:00:00.000000', 'job:started', '{"cause":"started","after":{"v":2,"state":"running","attempt":1,"tries":0,"backend":"consumers/words","startedAt":1800000000010}}', 1, 1800000000010, 'lost'),
(19, '2027-01-15 08:00:00.000000', 'attempt:succeeded', '{"cause":"succeeded","after":{"v":3,"job":"done","n":1,"backend":"consumers/words","registry":"consumers","state":"ended","epoch":1,"at":1800000000000,"acceptedAt":1800000000010,"endedAt":1800000000010,"outcome":"succeeded","isPulled":true,"holder":{"consumer":"words/ann","fence":2,"claim":1}}}', 1, 1800000000010, 'done:1'),
(20, '2027-01-15 08:00:00.000000', 'job:succeeded', '{"cause":"succeeded","after":{"v":2,"state":"succeeded","attempt":1,"tries":0,"backend":"consumers/words","startedAt":1800000000010,"endedAt":1800000000010,"result":"{\\"words\\":3}"}}', 1, 1800000000010, 'done'),
(21, '2027-01-15 08:00:00.000000', 'brain:open', '{"cause":"open","after":{"v":1,"owner":"16b892fa144e272d","epoch":2,"attemptFloor":0,"nonce":"b381712eaaa0f2b1","openings":[{"epoch":1,"nonce":"7ddd4276f40d97d5"}]}}', 2, 1800000000010, 'brain'),
(22, '2027-01-15 08:00:00.000000', 'attempt:lost', '{"cause":"lost","after":{"v":3,"job":"lost","n":1,"backend":"consumers/words","registry":"consumers","state":"unknown","epoch":2,"at":1800000000000,"acceptedAt":1800000000010,"isPulled":true,"holder":{"consumer":"words/bob","fence":3,"claim":1}}}', 2, 1800000000010, 'lost:1'),
(23, '2027-01-15 08:00:00.000000', 'job:lost', '{"cause":"lost","after":{"v":2,"state":"stale","attempt":1,"tries":0,"backend":"consumers/words","startedAt":1800000000010}}', 2, 1800000000010, 'lost'),
(24, '2027-01-15 08:00:00.000000', 'attempt:forgotten', '{"cause":"forgotten","after":{"v":3,"job":"lost","n":1,"backend":"consumers/words","registry":"consumers","state":"unknown","epoch":2,"at":1800000000000,"acceptedAt":1800000000010,"isPulled":true,"holder":{"consumer":"words/bob","fence":3,"claim":1},"isGone":true}}', 2, 1800000000010, 'lost:1'),
(25, '2027-01-15 08:00:00.000000', 'consumer:left', '{"cause":"left","after":null}', 2, 1800000000010, 'words/bob'),
(26, '2027-01-15 08:00:00.000000', 'ask:submit', '{"cause":"submit","after":{"v":2,"id":"unclaimed","tenant":"default","n":26,"createdAt":1800000000010,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"count","priority":"batch","score":0,"weight":1,"max_tries":3,"backend":"consumers"},"payloadBytes":19,"hash":"388bbd5c255f9b635e1e67e6a5556a6f55faa49848b44192337de0003e46741c"}}', 2, 1800000000010, 'unclaimed'),
(27, '2027-01-15 08:00:00.000000', 'job:claim:only-class', '{"cause":{"is":"claim","pick":"only-class"},"after":{"v":2,"state":"claimed","attempt":1,"tries":0,"backend":"consumers/words"}}', 2, 1800000000010, 'unclaimed'),
(28, '2027-01-15 08:00:00.000000', 'attempt:claim:only-class', '{"cause":{"is":"claim","pick":"only-class"},"after":{"v":3,"job":"unclaimed","n":1,"backend":"consumers/words","registry":"consumers","state":"intended","epoch":2,"at":1800000000010,"isPulled":true}}', 2, 1800000000010, 'unclaimed:1'),
(29, '2027-01-15 08:00:00.000000', 'consumer:registered', '{"cause":"registered","after":{"v":1,"pool":"words","name":"bob","token":"cccccccccccccccccccccccccccccccc","slots":2,"types":["count"],"labels":{"zone":"a"},"paid":false,"ttlMs":3600000,"fence":29,"state":"live","registeredAt":1800000000020,"seenAt":1800000000020}}', 2, 1800000000020, 'words/bob'),
(30, '2027-01-15 08:00:00.000000', 'brain:fenced', '{"cause":"fenced","after":{"v":1,"owner":"16b892fa144e272d","epoch":2,"attemptFloor":0,"nonce":"b381712eaaa0f2b1","openings":[{"epoch":1,"nonce":"7ddd4276f40d97d5"}],"fenced":{"token":"done:1","consumer":"words/bob","at":1800000000020}}}', 2, 1800000000020, 'brain'),
(31, '2027-01-15 08:00:00.000000', 'policy:set:ann', '{"cause":{"is":"set","by":"ann"},"after":{"v":1,"by":"ann","why":"a flood","values":{"gates":{"queueDepth":{"closeAbove":0,"openBelow":0,"onDepth":"scale_up"},"gpuMemory":{"closeAbove":0,"openBelow":0},"agentWaiting":{"high":50,"low":40}}},"at":1800000000020,"before":{"by":"start","why":"","at":0,"values":{}}}}', 2, 1800000000020, 'policy');

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
(1, 2, 31, 1800000000020, NULL, NULL, NULL, '{"v":1,"owner":"16b892fa144e272d","epoch":2,"attemptFloor":0,"nonce":"b381712eaaa0f2b1","openings":[{"epoch":1,"nonce":"7ddd4276f40d97d5"}],"fenced":{"token":"done:1","consumer":"words/bob","at":1800000000020}}', 0, 0, NULL);

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
INSERT INTO orchestrator_jobs (uid, job_id, tenant, n, seq, type, payload, status, is_terminal, principal, session_id, job_key, owner_pool, attempts, created_at, updated_at, ended_ms, last_error, caller_chose_id, payload_blob, result_blob, ask, job, batch_id, tags, root_id) VALUES
('done', 'done', 'default', 4, 20, 'count', '{"ask":"done"}', 'done', 1, 'anonymous', NULL, NULL, 'words', 1, '2027-01-15 08:00:00.000000', '2027-01-15 08:00:00.000000', 1800000000010, NULL, 1, NULL, NULL, '{"v":2,"id":"done","tenant":"default","n":4,"createdAt":1800000000000,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"count","priority":"batch","score":0,"weight":1,"max_tries":3,"backend":"consumers"},"payloadBytes":14,"hash":"44a0e9b35bc0ff448af683629b31b7f5bde08f44a9b0765ea33bb207e35497aa"}', '{"v":2,"state":"succeeded","attempt":1,"tries":0,"backend":"consumers/words","startedAt":1800000000010,"endedAt":1800000000010,"result":"{\\"words\\":3}"}', NULL, NULL, NULL),
('held', 'held', 'default', 5, 16, 'count', '{"ask":"held"}', 'running', 0, 'anonymous', NULL, NULL, 'words', 1, '2027-01-15 08:00:00.000000', '2027-01-15 08:00:00.000000', NULL, NULL, 1, NULL, NULL, '{"v":2,"id":"held","tenant":"default","n":5,"createdAt":1800000000000,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"count","priority":"batch","score":0,"weight":1,"max_tries":3,"backend":"consumers"},"payloadBytes":14,"hash":"79458892458c4ff2a61c30fa741eadd6e06099ca24e605d6e18beed586dc8809"}', '{"v":2,"state":"running","attempt":1,"tries":0,"backend":"consumers/words","startedAt":1800000000010}', NULL, NULL, NULL),
('lost', 'lost', 'default', 6, 24, 'count', '{"ask":"lost"}', 'stale', 0, 'anonymous', NULL, NULL, 'words', 1, '2027-01-15 08:00:00.000000', '2027-01-15 08:00:00.000000', NULL, NULL, 1, NULL, NULL, '{"v":2,"id":"lost","tenant":"default","n":6,"createdAt":1800000000000,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"count","priority":"batch","score":0,"weight":1,"max_tries":3,"backend":"consumers","on_unknown":"hold"},"payloadBytes":14,"hash":"3fdb3904ccd3c506b950b44ea72f75a2741fec3ea22ce15659657cc5dff8a3e1"}', '{"v":2,"state":"stale","attempt":1,"tries":0,"backend":"consumers/words","startedAt":1800000000010}', NULL, NULL, NULL),
('unclaimed', 'unclaimed', 'default', 26, 28, 'count', '{"ask":"unclaimed"}', 'claimed', 0, 'anonymous', NULL, NULL, 'words', 1, '2027-01-15 08:00:00.000000', NULL, NULL, NULL, 1, NULL, NULL, '{"v":2,"id":"unclaimed","tenant":"default","n":26,"createdAt":1800000000010,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"count","priority":"batch","score":0,"weight":1,"max_tries":3,"backend":"consumers"},"payloadBytes":19,"hash":"388bbd5c255f9b635e1e67e6a5556a6f55faa49848b44192337de0003e46741c"}', '{"v":2,"state":"claimed","attempt":1,"tries":0,"backend":"consumers/words"}', NULL, NULL, NULL);

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
('consumer', 'words/ann', '{"v":1,"pool":"words","name":"ann","token":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","slots":2,"types":["count"],"labels":{"zone":"a"},"paid":false,"ttlMs":3600000,"fence":2,"state":"live","registeredAt":1800000000000,"seenAt":1800000000000}'),
('consumer', 'words/bob', '{"v":1,"pool":"words","name":"bob","token":"cccccccccccccccccccccccccccccccc","slots":2,"types":["count"],"labels":{"zone":"a"},"paid":false,"ttlMs":3600000,"fence":29,"state":"live","registeredAt":1800000000020,"seenAt":1800000000020}'),
('policy', 'policy', '{"v":1,"by":"ann","why":"a flood","values":{"gates":{"queueDepth":{"closeAbove":0,"openBelow":0,"onDepth":"scale_up"},"gpuMemory":{"closeAbove":0,"openBelow":0},"agentWaiting":{"high":50,"low":40}}},"at":1800000000020,"before":{"by":"start","why":"","at":0,"values":{}}}');

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
