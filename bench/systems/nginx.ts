/** A private nginx as a reverse proxy in front of the source of streams: one worker process, no buffering. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../../src/kit/free-port.ts';
import { needDebian } from '../../test/fakes/debian.ts';
import { answersAt } from './answers-at.ts';
import { type Daemon, startDaemon } from './daemon.ts';

export interface ProxyDaemon extends Daemon {
  readonly port: number;
}

export async function startNginx(folder: string, upstream: number): Promise<ProxyDaemon> {
  const program = await needDebian('nginx-light', 'nginx');
  mkdirSync(folder, { recursive: true });
  const port = await freePort();
  const config = join(folder, 'nginx.conf');
  writeFileSync(config, configOf(folder, port, upstream));
  const args = ['-c', config, '-e', join(folder, 'error.log')];
  const daemon = await startDaemon({ program, args, answers: () => answersAt(port) });
  return { ...daemon, port };
}

const configOf = (folder: string, port: number, upstream: number): string => `
worker_processes 1;
daemon off;
pid ${folder}/nginx.pid;
worker_rlimit_nofile 20000;
events { worker_connections 12000; }
http {
  access_log off;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  keepalive_requests 1000000;
  upstream source { server 127.0.0.1:${upstream}; keepalive 512; }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location / {
      proxy_pass http://source;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 300s;
    }
  }
}
`;
