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
('other:1', 'other', 1, 1, '{"v":2,"job":"other","n":1,"backend":"right","registry":"right-1","state":"accepted","epoch":2,"at":1800000000030,"acceptedAt":1800000000030}'),
('plain-1:1', 'plain-1', 1, 0, '{"v":2,"job":"plain-1","n":1,"backend":"left","registry":"left-1","state":"ended","epoch":1,"at":1800000000010,"acceptedAt":1800000000010,"endedAt":1800000000010,"outcome":"succeeded"}'),
('talk-1:1', 'talk-1', 1, 0, '{"v":2,"job":"talk-1","n":1,"backend":"left","registry":"left-1","state":"ended","epoch":1,"at":1800000000000,"acceptedAt":1800000000000,"endedAt":1800000000000,"outcome":"succeeded"}'),
('talk-2:1', 'talk-2', 1, 0, '{"v":2,"job":"talk-2","n":1,"backend":"right","registry":"right-1","state":"ended","epoch":1,"at":1800000000020,"acceptedAt":1800000000020,"endedAt":1800000000020,"outcome":"succeeded"}');

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
(2, '2027-01-15 08:00:00.000000', 'session:begun', '{"cause":"begun","after":{"v":3,"tenant":"default","id":"talk","createdAt":1800000000000,"usedAt":1800000000000,"turns":0,"tokensUsed":0}}', 1, 1800000000000, 'default~talk'),
(3, '2027-01-15 08:00:00.000000', 'ask:submit', '{"cause":"submit","after":{"v":2,"id":"talk-1","tenant":"default","n":3,"createdAt":1800000000000,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"inference","priority":"batch","score":0,"weight":1,"max_tries":3,"session_id":"talk","model":"l"},"payloadBytes":16,"tokens":257,"hash":"1e4264e8063e096ed6ea8a5f96bc1e4f64c8536f1dd62d62132b03675e02183d","messages":1}}', 1, 1800000000000, 'talk-1'),
(4, '2027-01-15 08:00:00.000000', 'job:claim:only-class', '{"cause":{"is":"claim","pick":"only-class"},"after":{"v":2,"state":"claimed","attempt":1,"tries":0,"backend":"left"}}', 1, 1800000000000, 'talk-1'),
(5, '2027-01-15 08:00:00.000000', 'attempt:claim:only-class', '{"cause":{"is":"claim","pick":"only-class"},"after":{"v":2,"job":"talk-1","n":1,"backend":"left","registry":"left-1","state":"intended","epoch":1,"at":1800000000000}}', 1, 1800000000000, 'talk-1:1'),
(6, '2027-01-15 08:00:00.000000', 'attempt:accepted', '{"cause":"accepted","after":{"v":2,"job":"talk-1","n":1,"backend":"left","registry":"left-1","state":"accepted","epoch":1,"at":1800000000000,"acceptedAt":1800000000000}}', 1, 1800000000000, 'talk-1:1'),
(7, '2027-01-15 08:00:00.000000', 'job:started', '{"cause":"started","after":{"v":2,"state":"running","attempt":1,"tries":0,"backend":"left","startedAt":1800000000000}}', 1, 1800000000000, 'talk-1'),
(8, '2027-01-15 08:00:00.000000', 'attempt:succeeded', '{"cause":"succeeded","after":{"v":2,"job":"talk-1","n":1,"backend":"left","registry":"left-1","state":"ended","epoch":1,"at":1800000000000,"acceptedAt":1800000000000,"endedAt":1800000000000,"outcome":"succeeded"}}', 1, 1800000000000, 'talk-1:1'),
(9, '2027-01-15 08:00:00.000000', 'job:succeeded', '{"cause":"succeeded","after":{"v":2,"state":"succeeded","attempt":1,"tries":0,"backend":"left","startedAt":1800000000000,"endedAt":1800000000000,"result":"sealed:1:hCixwaGhb0ezgXEuqqDysQ:g4fFfuraXphp6aW6VsdMqBdc/WpB/jWgPFami2VwNvts3g4ljWgPWVVl0Q=="}}', 1, 1800000000000, 'talk-1'),
(10, '2027-01-15 08:00:00.000000', 'session:used', '{"cause":"used","after":{"v":3,"tenant":"default","id":"talk","createdAt":1800000000000,"usedAt":1800000000000,"turns":1,"tokensUsed":0,"threads":[{"backend":"left","thread":"https://chat.example/left/1","heard":2,"hash":"left-after-2"}]}}', 1, 1800000000000, 'default~talk'),
(11, '2027-01-15 08:00:00.000000', 'session:begun', '{"cause":"begun","after":{"v":3,"tenant":"default","id":"plain","createdAt":1800000000010,"usedAt":1800000000010,"turns":0,"tokensUsed":0}}', 1, 1800000000010, 'default~plain'),
(12, '2027-01-15 08:00:00.000000', 'ask:submit', '{"cause":"submit","after":{"v":2,"id":"plain-1","tenant":"default","n":12,"createdAt":1800000000010,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"inference","priority":"batch","score":0,"weight":1,"max_tries":3,"session_id":"plain","model":"l"},"payloadBytes":16,"tokens":257,"hash":"5120ab282fb071ab3ebdd72d813c6bc7b48ffd8be3c757c166d227110915d736","messages":1}}', 1, 1800000000010, 'plain-1'),
(13, '2027-01-15 08:00:00.000000', 'job:claim:only-class', '{"cause":{"is":"claim","pick":"only-class"},"after":{"v":2,"state":"claimed","attempt":1,"tries":0,"backend":"left"}}', 1, 1800000000010, 'plain-1'),
(14, '2027-01-15 08:00:00.000000', 'attempt:claim:only-class', '{"cause":{"is":"claim","pick":"only-class"},"after":{"v":2,"job":"plain-1","n":1,"backend":"left","registry":"left-1","state":"intended","epoch":1,"at":1800000000010}}', 1, 1800000000010, 'plain-1:1'),
(15, '2027-01-15 08:00:00.000000', 'attempt:accepted', '{"cause":"accepted","after":{"v":2,"job":"plain-1","n":1,"backend":"left","registry":"left-1","state":"accepted","epoch":1,"at":1800000000010,"acceptedAt":1800000000010}}', 1, 1800000000010, 'plain-1:1'),
(16, '2027-01-15 08:00:00.000000', 'job:started', '{"cause":"started","after":{"v":2,"state":"running","attempt":1,"tries":0,"backend":"left","startedAt":1800000000010}}', 1, 1800000000010, 'plain-1'),
(17, '2027-01-15 08:00:00.000000', 'attempt:succeeded', '{"cause":"succeeded","after":{"v":2,"job":"plain-1","n":1,"backend":"left","registry":"left-1","state":"ended","epoch":1,"at":1800000000010,"acceptedAt":1800000000010,"endedAt":1800000000010,"outcome":"succeeded"}}', 1, 1800000000010, 'plain-1:1'),
(18, '2027-01-15 08:00:00.000000', 'job:succeeded', '{"cause":"succeeded","after":{"v":2,"state":"succeeded","attempt":1,"tries":0,"backend":"left","startedAt":1800000000010,"endedAt":1800000000010,"result":"sealed:1:bz6EYK9Kbx-jIuDu9sh2CQ:wP19FYdnNkxSde/Zqg1lN42f65J78mUFr1SeovlSx2+cRcmzAt2AieovGAiAbV3YO9VzRl/8"}}', 1, 1800000000010, 'plain-1'),
(19, '2027-01-15 08:00:00.000000', 'session:used', '{"cause":"used","after":{"v":3,"tenant":"default","id":"plain","createdAt":1800000000010,"usedAt":1800000000010,"turns":1,"tokensUsed":0,"threads":[{"backend":"left","heard":2}]}}', 1, 1800000000010, 'default~plain'),
(20, '2027-01-15 08:00:00.000000', 'ask:submit', '{"cause":"submit","after":{"v":2,"id":"talk-2","tenant":"default","n":20,"createdAt":1800000000020,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"inference","priority":"batch","score":0,"weight":1,"max_tries":3,"session_id":"talk","model":"r"},"payloadBytes":16,"tokens":257,"hash":"b14c05fb6863fb8898b066ec4c2fa4b5e4a4a59c7e92f0e5b5013c1c10549d94","messages":1}}', 1, 1800000000020, 'talk-2'),
(21, '2027-01-15 08:00:00.000000', 'job:claim:only-class,moved', '{"cause":{"is":"claim","pick":"only-class","place":"moved"},"after":{"v":2,"state":"claimed","attempt":1,"tries":0,"backend":"right"}}', 1, 1800000000020, 'talk-2'),
(22, '2027-01-15 08:00:00.000000', 'attempt:claim:only-class,moved', '{"cause":{"is":"claim","pick":"only-class","place":"moved"},"after":{"v":2,"job":"talk-2","n":1,"backend":"right","registry":"right-1","state":"intended","epoch":1,"at":1800000000020}}', 1, 1800000000020, 'talk-2:1'),
(23, '2027-01-15 08:00:00.000000', 'attempt:accepted', '{"cause":"accepted","after":{"v":2,"job":"talk-2","n":1,"backend":"right","registry":"right-1","state":"accepted","epoch":1,"at":1800000000020,"acceptedAt":1800000000020}}', 1, 1800000000020, 'talk-2:1'),
(24, '2027-01-15 08:00:00.000000', 'job:started', '{"cause":"started","after":{"v":2,"state":"running","attempt":1,"tries":0,"backend":"right","startedAt":1800000000020}}', 1, 1800000000020, 'talk-2'),
(25, '2027-01-15 08:00:00.000000', 'attempt:succeeded', '{"cause":"succeeded","after":{"v":2,"job":"talk-2","n":1,"backend":"right","registry":"right-1","state":"ended","epoch":1,"at":1800000000020,"acceptedAt":1800000000020,"endedAt":1800000000020,"outcome":"succeeded"}}', 1, 1800000000020, 'talk-2:1'),
(26, '2027-01-15 08:00:00.000000', 'job:succeeded', '{"cause":"succeeded","after":{"v":2,"state":"succeeded","attempt":1,"tries":0,"backend":"right","startedAt":1800000000020,"endedAt":1800000000020,"result":"sealed:1:hCixwaGhb0ezgXEuqqDysQ:U9qBTAAoVG6fEW5sk6FCKDlXlJtoeg4YYdBEqVHYPgp0SB8YJr8FZh5UOw=="}}', 1, 1800000000020, 'talk-2'),
(27, '2027-01-15 08:00:00.000000', 'session:used', '{"cause":"used","after":{"v":3,"tenant":"default","id":"talk","createdAt":1800000000000,"usedAt":1800000000020,"turns":2,"tokensUsed":0,"threads":[{"backend":"left","thread":"https://chat.example/left/1","heard":2,"hash":"left-after-2"},{"backend":"right","thread":"https://chat.example/right/1","heard":4,"hash":"right-after-4"}]}}', 1, 1800000000020, 'default~talk'),
(28, '2027-01-15 08:00:00.000000', 'brain:open', '{"cause":"open","after":{"v":1,"owner":"16b892fa144e272d","epoch":2,"attemptFloor":0,"nonce":"ccff96260ed181c3","openings":[{"epoch":1,"nonce":"7ddd4276f40d97d5"}]}}', 2, 1800000000030, 'brain'),
(29, '2027-01-15 08:00:00.000000', 'ask:submit', '{"cause":"submit","after":{"v":2,"id":"other","tenant":"default","n":29,"createdAt":1800000000030,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"inference","priority":"batch","score":0,"weight":1,"max_tries":3,"model":"r"},"payloadBytes":17,"tokens":257,"hash":"2d7aee88d0fd596fb1dba4c4dd1ba891b89d830d3c0ab89b1301f76489b2094f","messages":1}}', 2, 1800000000030, 'other'),
(30, '2027-01-15 08:00:00.000000', 'job:claim:only-class', '{"cause":{"is":"claim","pick":"only-class"},"after":{"v":2,"state":"claimed","attempt":1,"tries":0,"backend":"right"}}', 2, 1800000000030, 'other'),
(31, '2027-01-15 08:00:00.000000', 'attempt:claim:only-class', '{"cause":{"is":"claim","pick":"only-class"},"after":{"v":2,"job":"other","n":1,"backend":"right","registry":"right-1","state":"intended","epoch":2,"at":1800000000030}}', 2, 1800000000030, 'other:1'),
(32, '2027-01-15 08:00:00.000000', 'attempt:accepted', '{"cause":"accepted","after":{"v":2,"job":"other","n":1,"backend":"right","registry":"right-1","state":"accepted","epoch":2,"at":1800000000030,"acceptedAt":1800000000030}}', 2, 1800000000030, 'other:1'),
(33, '2027-01-15 08:00:00.000000', 'job:started', '{"cause":"started","after":{"v":2,"state":"running","attempt":1,"tries":0,"backend":"right","startedAt":1800000000030}}', 2, 1800000000030, 'other'),
(34, '2027-01-15 08:00:00.000000', 'ask:submit', '{"cause":"submit","after":{"v":2,"id":"talk-3","tenant":"default","n":34,"createdAt":1800000000040,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"inference","priority":"batch","score":0,"weight":1,"max_tries":3,"session_id":"talk","model":"both"},"payloadBytes":18,"tokens":258,"hash":"7e3d879ad185563d2b6ccd985f0512a9fb6cfd2cd1798ccb46ad7acb1ccb3a34","messages":1}}', 2, 1800000000040, 'talk-3');

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
(1, 2, 34, 1800000000040, NULL, NULL, NULL, '{"v":1,"owner":"16b892fa144e272d","epoch":2,"attemptFloor":0,"nonce":"ccff96260ed181c3","openings":[{"epoch":1,"nonce":"7ddd4276f40d97d5"}]}', 0, 0, NULL);

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
('other', 'other', 'default', 29, 33, 'inference', '{"prompt":"else"}', 'running', 0, 'anonymous', NULL, NULL, 'right', 1, '2027-01-15 08:00:00.000000', '2027-01-15 08:00:00.000000', NULL, NULL, 1, NULL, NULL, '{"v":2,"id":"other","tenant":"default","n":29,"createdAt":1800000000030,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"inference","priority":"batch","score":0,"weight":1,"max_tries":3,"model":"r"},"payloadBytes":17,"tokens":257,"hash":"2d7aee88d0fd596fb1dba4c4dd1ba891b89d830d3c0ab89b1301f76489b2094f","messages":1}', '{"v":2,"state":"running","attempt":1,"tries":0,"backend":"right","startedAt":1800000000030}', NULL, NULL, NULL),
('plain-1', 'plain-1', 'default', 12, 18, 'inference', 'sealed:1:bz6EYK9Kbx-jIuDu9sh2CQ:Lo5jJ9eZv9cSSILALBzE4/R81rFjTa+Zag7ZA0oAyltSUx2/JbnP1blBSD0=', 'done', 1, 'anonymous', 'plain', NULL, 'left', 1, '2027-01-15 08:00:00.000000', '2027-01-15 08:00:00.000000', 1800000000010, NULL, 1, NULL, NULL, '{"v":2,"id":"plain-1","tenant":"default","n":12,"createdAt":1800000000010,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"inference","priority":"batch","score":0,"weight":1,"max_tries":3,"session_id":"plain","model":"l"},"payloadBytes":16,"tokens":257,"hash":"5120ab282fb071ab3ebdd72d813c6bc7b48ffd8be3c757c166d227110915d736","messages":1}', '{"v":2,"state":"succeeded","attempt":1,"tries":0,"backend":"left","startedAt":1800000000010,"endedAt":1800000000010,"result":"sealed:1:bz6EYK9Kbx-jIuDu9sh2CQ:wP19FYdnNkxSde/Zqg1lN42f65J78mUFr1SeovlSx2+cRcmzAt2AieovGAiAbV3YO9VzRl/8"}', NULL, NULL, NULL),
('talk-1', 'talk-1', 'default', 3, 9, 'inference', 'sealed:1:hCixwaGhb0ezgXEuqqDysQ:CAO/z8DvwlyGt4xO+9Q1gwWyAKqHf9xQkWIrBgfcw1DqP5NL+SN8dC3z8CY=', 'done', 1, 'anonymous', 'talk', NULL, 'left', 1, '2027-01-15 08:00:00.000000', '2027-01-15 08:00:00.000000', 1800000000000, NULL, 1, NULL, NULL, '{"v":2,"id":"talk-1","tenant":"default","n":3,"createdAt":1800000000000,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"inference","priority":"batch","score":0,"weight":1,"max_tries":3,"session_id":"talk","model":"l"},"payloadBytes":16,"tokens":257,"hash":"1e4264e8063e096ed6ea8a5f96bc1e4f64c8536f1dd62d62132b03675e02183d","messages":1}', '{"v":2,"state":"succeeded","attempt":1,"tries":0,"backend":"left","startedAt":1800000000000,"endedAt":1800000000000,"result":"sealed:1:hCixwaGhb0ezgXEuqqDysQ:g4fFfuraXphp6aW6VsdMqBdc/WpB/jWgPFami2VwNvts3g4ljWgPWVVl0Q=="}', NULL, NULL, NULL),
('talk-2', 'talk-2', 'default', 20, 26, 'inference', 'sealed:1:hCixwaGhb0ezgXEuqqDysQ:UwMuNfDIJ1++Z/E4IZldMNWORA/lTvD+zjzynSztBoU418zUI6HaNIItWz0=', 'done', 1, 'anonymous', 'talk', NULL, 'right', 1, '2027-01-15 08:00:00.000000', '2027-01-15 08:00:00.000000', 1800000000020, NULL, 1, NULL, NULL, '{"v":2,"id":"talk-2","tenant":"default","n":20,"createdAt":1800000000020,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"inference","priority":"batch","score":0,"weight":1,"max_tries":3,"session_id":"talk","model":"r"},"payloadBytes":16,"tokens":257,"hash":"b14c05fb6863fb8898b066ec4c2fa4b5e4a4a59c7e92f0e5b5013c1c10549d94","messages":1}', '{"v":2,"state":"succeeded","attempt":1,"tries":0,"backend":"right","startedAt":1800000000020,"endedAt":1800000000020,"result":"sealed:1:hCixwaGhb0ezgXEuqqDysQ:U9qBTAAoVG6fEW5sk6FCKDlXlJtoeg4YYdBEqVHYPgp0SB8YJr8FZh5UOw=="}', NULL, NULL, NULL),
('talk-3', 'talk-3', 'default', 34, 34, 'inference', 'sealed:1:hCixwaGhb0ezgXEuqqDysQ:KiLsaDRlUcbA7VC0udLVfItbhK8K76acKzcz4z+QoNApK0or/G62NQZ0z8qc3w==', 'pending', 0, 'anonymous', 'talk', NULL, NULL, 0, '2027-01-15 08:00:00.000000', NULL, NULL, NULL, 1, NULL, NULL, '{"v":2,"id":"talk-3","tenant":"default","n":34,"createdAt":1800000000040,"submittedBy":"anonymous","spec":{"agent":"anonymous","type":"inference","priority":"batch","score":0,"weight":1,"max_tries":3,"session_id":"talk","model":"both"},"payloadBytes":18,"tokens":258,"hash":"7e3d879ad185563d2b6ccd985f0512a9fb6cfd2cd1798ccb46ad7acb1ccb3a34","messages":1}', '{"v":2,"state":"queued","attempt":0,"tries":0}', NULL, NULL, NULL);

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
('session', 'default~plain', '{"v":3,"tenant":"default","id":"plain","createdAt":1800000000010,"usedAt":1800000000010,"turns":1,"tokensUsed":0,"threads":[{"backend":"left","heard":2}]}'),
('session', 'default~talk', '{"v":3,"tenant":"default","id":"talk","createdAt":1800000000000,"usedAt":1800000000020,"turns":2,"tokensUsed":0,"threads":[{"backend":"left","thread":"https://chat.example/left/1","heard":2,"hash":"left-after-2"},{"backend":"right","thread":"https://chat.example/right/1","heard":4,"hash":"right-after-4"}]}');

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
INSERT INTO orchestrator_session_keys (n, key_id, tenant, session_id, secret) VALUES
(1, 'hCixwaGhb0ezgXEuqqDysQ', 'default', 'talk', 0x4CB6F1812DC7B92688751CF87431F5321B55C6EDEFAD85FD15EEEBFE6F20DE06),
(2, 'bz6EYK9Kbx-jIuDu9sh2CQ', 'default', 'plain', 0x17A702AC5E231B2E745D163F02976147CCD8A837B2B454434B5B2D4C0B55420B);

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
