/** What the brain and the process of a gateway share beside the wire; the address file is that of upstream/layout.ts. */

/** Variables with which the brain starts a gateway. */
export const GATEWAY_LAUNCH_VARIABLE = 'ORCHD_GATEWAY_LAUNCH';
export const GATEWAY_TOKEN_VARIABLE = 'ORCHD_GATEWAY_TOKEN';

/** Variables by which a Chromium with a window finds its display. */
export const DISPLAY_VARIABLES = ['DISPLAY', 'WAYLAND_DISPLAY', 'XAUTHORITY', 'XDG_RUNTIME_DIR'] as const;

/** The program of the gateway. Its arguments are its folder, the host and the port on which it listens, and allowed hosts. */
export const GATEWAY_PROGRAM = new URL(
  import.meta.url.endsWith('.ts') ? './gateway-main.ts' : './gateway-main.js',
  import.meta.url,
);
