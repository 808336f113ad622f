/** True where an HTTP server answers at this port, with any status. */
export const answersAt = (port: number): Promise<boolean> =>
  fetch(`http://127.0.0.1:${port}/`).then(
    (answer) => answer.body?.cancel().then(() => true) ?? true,
    () => false,
  );
