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
('bounded:1', 'bounded', 1, 1, '{"v":2,"job":"bounded","n":1,"backend":"seat","registry":"seat-1","state":"accepted","epoch":2,"at":1800000000000,"acceptedAt":1800000000000,"maxTokens":50}'),
('plain-1:1', 'plain-1', 1, 0, '{"v":2,"job":"plain-1","n":1,"backend":"seat","registry":"seat-1","state":"ended","epoch":1,"at":1800000000010,"acceptedAt":1800000000010,"endedAt":1800000000010,"outcome":"succeeded"}'),
('plain-2:1', 'plain-2', 1, 0, '{"v":2,"job":"plain-2","n":1,"backend":"seat","registry":"seat-1","state":"ended","epoch":1,"at":1800000000010,"acceptedAt":1800000000010,"endedAt":1800000000010,"outcome":"succeeded"}');

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
(2, '2027-01-15 08:00:00.000000', 'governance:violation:rule:no-count:denied', '{"cause":{"is":"violation","rule":"rule:no-count","job":"denied"},"after":{"v":1,"mode":"NORMAL","since":0,"by":"start","why":"","violations":1,"last":[{"at":1800000000000,"job":"denied","tenant":"default","rule":"rule:no-count","isCritical":false,"isShadow":false}]}}', 1, 1800000000000, 'mode'),
(3, '2027-01-15 08:00:00.000000', 'governance:mode:ALERT:ann', '{"cause":{"is":"mode","to":"ALERT","by":"ann"},"after":{"v":1,"mode":"ALERT","since":1800000000000,"by":"ann","why":"too many failures","violations":1,"last":[{"at":1800000000000,"job":"denied","tenant":"default","rule":"rule:no-count","isCritical":false,"isShadow":false}]}}', 1, 1800000000000, 'mode'),
(4, '2027-01-15 08:00:00.000000', 'ask:submit', '{"cause":"submit","after":{"v":2,"id":"bounded","tenant":"default","n":4,"createdAt":1800000000000,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"inference","priority":"batch","score":0,"weight":1,"max_tries":3,"model":"m"},"payloadBytes":18,"tokens":258,"hash":"c1d056d4b47e6957fa558fa0b80dd7e3518449fb898c9b52f1823ae396f2760c","messages":1}}', 1, 1800000000000, 'bounded'),
(5, '2027-01-15 08:00:00.000000', 'job:claim:only-class', '{"cause":{"is":"claim","pick":"only-class"},"after":{"v":2,"state":"claimed","attempt":1,"tries":0,"backend":"seat"}}', 1, 1800000000000, 'bounded'),
(6, '2027-01-15 08:00:00.000000', 'attempt:claim:only-class', '{"cause":{"is":"claim","pick":"only-class"},"after":{"v":2,"job":"bounded","n":1,"backend":"seat","registry":"seat-1","state":"intended","epoch":1,"at":1800000000000,"maxTokens":50}}', 1, 1800000000000, 'bounded:1'),
(7, '2027-01-15 08:00:00.000000', 'attempt:accepted', '{"cause":"accepted","after":{"v":2,"job":"bounded","n":1,"backend":"seat","registry":"seat-1","state":"accepted","epoch":1,"at":1800000000000,"acceptedAt":1800000000000,"maxTokens":50}}', 1, 1800000000000, 'bounded:1'),
(8, '2027-01-15 08:00:00.000000', 'job:started', '{"cause":"started","after":{"v":2,"state":"running","attempt":1,"tries":0,"backend":"seat","startedAt":1800000000000}}', 1, 1800000000000, 'bounded'),
(9, '2027-01-15 08:00:00.000000', 'ask:submit', '{"cause":"submit","after":{"v":2,"id":"plain-1","tenant":"default","n":9,"createdAt":1800000000010,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"plain","priority":"batch","score":0,"weight":1,"max_tries":3},"payloadBytes":17,"hash":"b1c675307f120a0f3e7f11ba6b1f3be60429353ab77f19e50c4d1a535dc43299"}}', 1, 1800000000010, 'plain-1'),
(10, '2027-01-15 08:00:00.000000', 'ask:submit', '{"cause":"submit","after":{"v":2,"id":"plain-2","tenant":"default","n":10,"createdAt":1800000000010,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"plain","priority":"batch","score":0,"weight":1,"max_tries":3},"payloadBytes":17,"hash":"1b24fa94d621d069d68131130737ca92a4d0af4a951398b0ffd9e3b1e8646d38"}}', 1, 1800000000010, 'plain-2'),
(11, '2027-01-15 08:00:00.000000', 'ask:submit', '{"cause":"submit","after":{"v":2,"id":"plain-3","tenant":"default","n":11,"createdAt":1800000000010,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"plain","priority":"batch","score":0,"weight":1,"max_tries":3},"payloadBytes":17,"hash":"2b99c69933f04d2f792fe0d1ea61ac8c5140eb4270e983bdc5643e888894b9c8"}}', 1, 1800000000010, 'plain-3'),
(12, '2027-01-15 08:00:00.000000', 'job:claim:only-class', '{"cause":{"is":"claim","pick":"only-class"},"after":{"v":2,"state":"claimed","attempt":1,"tries":0,"backend":"seat"}}', 1, 1800000000010, 'plain-1'),
(13, '2027-01-15 08:00:00.000000', 'attempt:claim:only-class', '{"cause":{"is":"claim","pick":"only-class"},"after":{"v":2,"job":"plain-1","n":1,"backend":"seat","registry":"seat-1","state":"intended","epoch":1,"at":1800000000010}}', 1, 1800000000010, 'plain-1:1'),
(14, '2027-01-15 08:00:00.000000', 'job:claim:only-class', '{"cause":{"is":"claim","pick":"only-class"},"after":{"v":2,"state":"claimed","attempt":1,"tries":0,"backend":"seat"}}', 1, 1800000000010, 'plain-2'),
(15, '2027-01-15 08:00:00.000000', 'attempt:claim:only-class', '{"cause":{"is":"claim","pick":"only-class"},"after":{"v":2,"job":"plain-2","n":1,"backend":"seat","registry":"seat-1","state":"intended","epoch":1,"at":1800000000010}}', 1, 1800000000010, 'plain-2:1'),
(16, '2027-01-15 08:00:00.000000', 'spent:settled', '{"cause":"settled","after":{"v":1,"tokens":0,"at":1800000000010,"minute":{"started":2,"until":1800000060010}}}', 1, 1800000000010, 'mode:others'),
(17, '2027-01-15 08:00:00.000000', 'attempt:accepted', '{"cause":"accepted","after":{"v":2,"job":"plain-1","n":1,"backend":"seat","registry":"seat-1","state":"accepted","epoch":1,"at":1800000000010,"acceptedAt":1800000000010}}', 1, 1800000000010, 'plain-1:1'),
(18, '2027-01-15 08:00:00.000000', 'job:started', '{"cause":"started","after":{"v":2,"state":"running","attempt":1,"tries":0,"backend":"seat","startedAt":1800000000010}}', 1, 1800000000010, 'plain-1'),
(19, '2027-01-15 08:00:00.000000', 'attempt:accepted', '{"cause":"accepted","after":{"v":2,"job":"plain-2","n":1,"backend":"seat","registry":"seat-1","state":"accepted","epoch":1,"at":1800000000010,"acceptedAt":1800000000010}}', 1, 1800000000010, 'plain-2:1'),
(20, '2027-01-15 08:00:00.000000', 'job:started', '{"cause":"started","after":{"v":2,"state":"running","attempt":1,"tries":0,"backend":"seat","startedAt":1800000000010}}', 1, 1800000000010, 'plain-2'),
(21, '2027-01-15 08:00:00.000000', 'attempt:succeeded', '{"cause":"succeeded","after":{"v":2,"job":"plain-1","n":1,"backend":"seat","registry":"seat-1","state":"ended","epoch":1,"at":1800000000010,"acceptedAt":1800000000010,"endedAt":1800000000010,"outcome":"succeeded"}}', 1, 1800000000010, 'plain-1:1'),
(22, '2027-01-15 08:00:00.000000', 'job:succeeded', '{"cause":"succeeded","after":{"v":2,"state":"succeeded","attempt":1,"tries":0,"backend":"seat","startedAt":1800000000010,"endedAt":1800000000010,"result":"{\\"says\\":\\"plain-1\\",\\"try\\":1}"}}', 1, 1800000000010, 'plain-1'),
(23, '2027-01-15 08:00:00.000000', 'attempt:succeeded', '{"cause":"succeeded","after":{"v":2,"job":"plain-2","n":1,"backend":"seat","registry":"seat-1","state":"ended","epoch":1,"at":1800000000010,"acceptedAt":1800000000010,"endedAt":1800000000010,"outcome":"succeeded"}}', 1, 1800000000010, 'plain-2:1'),
(24, '2027-01-15 08:00:00.000000', 'job:succeeded', '{"cause":"succeeded","after":{"v":2,"state":"succeeded","attempt":1,"tries":0,"backend":"seat","startedAt":1800000000010,"endedAt":1800000000010,"result":"{\\"says\\":\\"plain-2\\",\\"try\\":1}"}}', 1, 1800000000010, 'plain-2'),
(25, '2027-01-15 08:00:00.000000', 'mcp_pin:set:first-seen', '{"cause":{"is":"set","by":"first-seen"},"after":{"v":1,"server":"notes","tool":"echo","hash":"echo-1","definition":"{\\"name\\":\\"echo\\",\\"inputSchema\\":{\\"type\\":\\"object\\"}}","at":1800000000020,"by":"first-seen"}}', 1, 1800000000020, 'notes/echo'),
(26, '2027-01-15 08:00:00.000000', 'mcp_pin:set:first-seen', '{"cause":{"is":"set","by":"first-seen"},"after":{"v":1,"server":"notes","tool":"read","hash":"read-1","definition":"{\\"name\\":\\"read\\",\\"inputSchema\\":{\\"type\\":\\"object\\"}}","at":1800000000020,"by":"first-seen"}}', 1, 1800000000020, 'notes/read'),
(27, '2027-01-15 08:00:00.000000', 'mcp_pin:set:ann', '{"cause":{"is":"set","by":"ann"},"after":{"v":1,"server":"notes","tool":"read","hash":"read-2","definition":"{\\"name\\":\\"read\\",\\"inputSchema\\":{\\"type\\":\\"object\\"}}","at":1800000000020,"by":"ann"}}', 1, 1800000000020, 'notes/read'),
(28, '2027-01-15 08:00:00.000000', 'mcp_task:set:mcp', '{"cause":{"is":"set","by":"mcp"},"after":{"v":1,"at":1800000000020,"server":"notes","taskId":"task-7"}}', 1, 1800000000020, 'bounded:1'),
(29, '2027-01-15 08:00:00.000000', 'module:set:mailer', '{"cause":{"is":"set","by":"mailer"},"after":{"v":1,"handled":[[1,3],[5,9]]}}', 1, 1800000000020, 'mailer'),
(30, '2027-01-15 08:00:00.000000', 'brain:open', '{"cause":"open","after":{"v":1,"owner":"16b892fa144e272d","epoch":2,"attemptFloor":0,"nonce":"b381712eaaa0f2b1","openings":[{"epoch":1,"nonce":"7ddd4276f40d97d5"}]}}', 2, 1800000000020, 'brain'),
(31, '2027-01-15 08:00:00.000000', 'attempt:re-attached', '{"cause":"re-attached","after":{"v":2,"job":"bounded","n":1,"backend":"seat","registry":"seat-1","state":"accepted","epoch":2,"at":1800000000000,"acceptedAt":1800000000000,"maxTokens":50}}', 2, 1800000000020, 'bounded:1'),
(32, '2027-01-15 08:00:00.000000', 'brain:reconciled', '{"cause":"reconciled","after":{"v":1,"owner":"16b892fa144e272d","epoch":2,"attemptFloor":0,"nonce":"b381712eaaa0f2b1","openings":[{"epoch":1,"nonce":"7ddd4276f40d97d5"}],"reconciled":{"backend":"seat","counts":{"reattached":1},"unknownRunning":0,"at":1800000000020}}}', 2, 1800000000020, 'brain'),
(33, '2027-01-15 08:00:00.000000', 'schedule:set:ann', '{"cause":{"is":"set","by":"ann"},"after":{"cron":"0 3 * * *","timeZone":"UTC","overlap":"skip","catchUp":"last","request":"{\\"type\\":\\"plain\\",\\"payload\\":\\"night\\"}","v":1,"tenant":"default","name":"nightly","source":"api","by":"ann","setAt":1800000000020,"tickedTo":1800000000020,"admitted":0,"skipped":0,"refused":0,"missed":0}}', 2, 1800000000020, 'default~nightly'),
(34, '2027-01-15 08:00:00.000000', 'batch:begun', '{"cause":"begun","after":{"v":1,"tenant":"default","id":"b","name":"a batch","createdAt":1800000000020,"at":1800000000020,"ended":{"succeeded":0,"dead":0,"cancelled":0}}}', 2, 1800000000020, 'default~b'),
(35, '2027-01-15 08:00:00.000000', 'governance:violation:rule:never:broken', '{"cause":{"is":"violation","rule":"rule:never","job":"broken"},"after":{"v":1,"mode":"ALERT","since":1800000000000,"by":"ann","why":"too many failures","violations":2,"last":[{"at":1800000000000,"job":"denied","tenant":"default","rule":"rule:no-count","isCritical":false,"isShadow":false},{"at":1800000000020,"job":"broken","tenant":"default","rule":"rule:never","isCritical":true,"isShadow":false}]}}', 2, 1800000000020, 'mode'),
(36, '2027-01-15 08:00:00.000000', 'governance:mode:LOCKDOWN:rule:never', '{"cause":{"is":"mode","to":"LOCKDOWN","by":"rule:never"},"after":{"v":1,"mode":"LOCKDOWN","since":1800000000020,"by":"rule:never","why":"the rule \\"never\\" forbids it","violations":2,"last":[{"at":1800000000000,"job":"denied","tenant":"default","rule":"rule:no-count","isCritical":false,"isShadow":false},{"at":1800000000020,"job":"broken","tenant":"default","rule":"rule:never","isCritical":true,"isShadow":false}]}}', 2, 1800000000020, 'mode'),
(37, '2027-01-15 08:00:00.000000', 'ask:submit', '{"cause":"submit","after":{"v":2,"id":"in-batch","tenant":"default","n":37,"createdAt":1800000000020,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"plain","priority":"batch","score":0,"weight":1,"max_tries":3,"batch":"b"},"payloadBytes":18,"hash":"cfec11d0331361bdf9a717948c63d05d0fa96b8ab0e22753f0096045b1725c02"}}', 2, 1800000000020, 'in-batch');

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
(1, 2, 37, 1800000000020, NULL, NULL, NULL, '{"v":1,"owner":"16b892fa144e272d","epoch":2,"attemptFloor":0,"nonce":"b381712eaaa0f2b1","openings":[{"epoch":1,"nonce":"7ddd4276f40d97d5"}],"reconciled":{"backend":"seat","counts":{"reattached":1},"unknownRunning":0,"at":1800000000020}}', 0, 0, NULL);

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
  `status` enum('pending','claimed','running','done','failed','dead_letter','stale','cancelled','waiting') NOT NULL,
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
('bounded', 'bounded', 'default', 4, 31, 'inference', '{"prompt":"long?"}', 'running', 0, 'anonymous', NULL, NULL, 'seat', 1, '2027-01-15 08:00:00.000000', '2027-01-15 08:00:00.000000', NULL, NULL, 1, NULL, NULL, '{"v":2,"id":"bounded","tenant":"default","n":4,"createdAt":1800000000000,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"inference","priority":"batch","score":0,"weight":1,"max_tries":3,"model":"m"},"payloadBytes":18,"tokens":258,"hash":"c1d056d4b47e6957fa558fa0b80dd7e3518449fb898c9b52f1823ae396f2760c","messages":1}', '{"v":2,"state":"running","attempt":1,"tries":0,"backend":"seat","startedAt":1800000000000}', NULL, NULL, NULL),
('in-batch', 'in-batch', 'default', 37, 37, 'plain', '{"ask":"in-batch"}', 'pending', 0, 'anonymous', NULL, NULL, NULL, 0, '2027-01-15 08:00:00.000000', NULL, NULL, NULL, 1, NULL, NULL, '{"v":2,"id":"in-batch","tenant":"default","n":37,"createdAt":1800000000020,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"plain","priority":"batch","score":0,"weight":1,"max_tries":3,"batch":"b"},"payloadBytes":18,"hash":"cfec11d0331361bdf9a717948c63d05d0fa96b8ab0e22753f0096045b1725c02"}', '{"v":2,"state":"queued","attempt":0,"tries":0}', 'b', NULL, NULL),
('plain-1', 'plain-1', 'default', 9, 22, 'plain', '{"ask":"plain-1"}', 'done', 1, 'anonymous', NULL, NULL, 'seat', 1, '2027-01-15 08:00:00.000000', '2027-01-15 08:00:00.000000', 1800000000010, NULL, 1, NULL, NULL, '{"v":2,"id":"plain-1","tenant":"default","n":9,"createdAt":1800000000010,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"plain","priority":"batch","score":0,"weight":1,"max_tries":3},"payloadBytes":17,"hash":"b1c675307f120a0f3e7f11ba6b1f3be60429353ab77f19e50c4d1a535dc43299"}', '{"v":2,"state":"succeeded","attempt":1,"tries":0,"backend":"seat","startedAt":1800000000010,"endedAt":1800000000010,"result":"{\\"says\\":\\"plain-1\\",\\"try\\":1}"}', NULL, NULL, NULL),
('plain-2', 'plain-2', 'default', 10, 24, 'plain', '{"ask":"plain-2"}', 'done', 1, 'anonymous', NULL, NULL, 'seat', 1, '2027-01-15 08:00:00.000000', '2027-01-15 08:00:00.000000', 1800000000010, NULL, 1, NULL, NULL, '{"v":2,"id":"plain-2","tenant":"default","n":10,"createdAt":1800000000010,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"plain","priority":"batch","score":0,"weight":1,"max_tries":3},"payloadBytes":17,"hash":"1b24fa94d621d069d68131130737ca92a4d0af4a951398b0ffd9e3b1e8646d38"}', '{"v":2,"state":"succeeded","attempt":1,"tries":0,"backend":"seat","startedAt":1800000000010,"endedAt":1800000000010,"result":"{\\"says\\":\\"plain-2\\",\\"try\\":1}"}', NULL, NULL, NULL),
('plain-3', 'plain-3', 'default', 11, 11, 'plain', '{"ask":"plain-3"}', 'pending', 0, 'anonymous', NULL, NULL, NULL, 0, '2027-01-15 08:00:00.000000', NULL, NULL, NULL, 1, NULL, NULL, '{"v":2,"id":"plain-3","tenant":"default","n":11,"createdAt":1800000000010,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"plain","priority":"batch","score":0,"weight":1,"max_tries":3},"payloadBytes":17,"hash":"2b99c69933f04d2f792fe0d1ea61ac8c5140eb4270e983bdc5643e888894b9c8"}', '{"v":2,"state":"queued","attempt":0,"tries":0}', NULL, NULL, NULL);

CREATE TABLE `orchestrator_leases` (
  `token` varchar(128) NOT NULL,
  `agent_name` varchar(255) NOT NULL,
  `gpu_index` int(11) DEFAULT NULL,
  `mode` enum('gpu','cpu') NOT NULL,
  `created_at` timestamp(6) NOT NULL DEFAULT current_timestamp(6),
  `expires_at` timestamp(6) NULL DEFAULT NULL,
  `last_heartbeat` timestamp(6) NULL DEFAULT NULL,
  `metadata` longtext DEFAULT NULL,
  `record` longtext NOT NULL,
  PRIMARY KEY (`token`),
  KEY `by_agent` (`agent_name`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;

CREATE TABLE `orchestrator_records` (
  `kind` varchar(32) NOT NULL,
  `id` varchar(330) NOT NULL,
  `record` longtext NOT NULL,
  PRIMARY KEY (`kind`,`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;
INSERT INTO orchestrator_records (kind, id, record) VALUES
('batch', 'default~b', '{"v":1,"tenant":"default","id":"b","name":"a batch","createdAt":1800000000020,"at":1800000000020,"ended":{"succeeded":0,"dead":0,"cancelled":0}}'),
('governance', 'mode', '{"v":1,"mode":"LOCKDOWN","since":1800000000020,"by":"rule:never","why":"the rule \\"never\\" forbids it","violations":2,"last":[{"at":1800000000000,"job":"denied","tenant":"default","rule":"rule:no-count","isCritical":false,"isShadow":false},{"at":1800000000020,"job":"broken","tenant":"default","rule":"rule:never","isCritical":true,"isShadow":false}]}'),
('mcp_pin', 'notes/echo', '{"v":1,"server":"notes","tool":"echo","hash":"echo-1","definition":"{\\"name\\":\\"echo\\",\\"inputSchema\\":{\\"type\\":\\"object\\"}}","at":1800000000020,"by":"first-seen"}'),
('mcp_pin', 'notes/read', '{"v":1,"server":"notes","tool":"read","hash":"read-2","definition":"{\\"name\\":\\"read\\",\\"inputSchema\\":{\\"type\\":\\"object\\"}}","at":1800000000020,"by":"ann"}'),
('mcp_task', 'bounded:1', '{"v":1,"at":1800000000020,"server":"notes","taskId":"task-7"}'),
('module', 'mailer', '{"v":1,"handled":[[1,3],[5,9]]}'),
('schedule', 'default~nightly', '{"cron":"0 3 * * *","timeZone":"UTC","overlap":"skip","catchUp":"last","request":"{\\"type\\":\\"plain\\",\\"payload\\":\\"night\\"}","v":1,"tenant":"default","name":"nightly","source":"api","by":"ann","setAt":1800000000020,"tickedTo":1800000000020,"admitted":0,"skipped":0,"refused":0,"missed":0}'),
('spent', 'mode:others', '{"v":1,"tokens":0,"at":1800000000010,"minute":{"started":2,"until":1800000060010}}');

CREATE TABLE `orchestrator_schema` (
  `id` tinyint(4) NOT NULL,
  `version` int(10) unsigned NOT NULL,
  PRIMARY KEY (`id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
INSERT INTO orchestrator_schema (id, version) VALUES
(1, 11);

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
