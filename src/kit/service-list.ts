/** Services that belong together, as one: started in order, stopped in reverse. */
import { Service } from './service.ts';

export class ServiceList extends Service {
  readonly #services: readonly Service[];

  constructor(services: readonly Service[]) {
    super();
    this.#services = services;
  }

  /** A stop that is asked for meanwhile is handed on to the service that is starting, and no further one is started. */
  protected async onStart(): Promise<void> {
    for (const service of this.#services) {
      if (this.stopSignal.aborted) return;
      const stopEarly = (): void => void service.stop().catch(() => undefined);
      this.stopSignal.addEventListener('abort', stopEarly);
      await service.start().finally(() => this.stopSignal.removeEventListener('abort', stopEarly));
    }
  }

  /** Every service is stopped, whatever became of the others; the first failure is thrown at the end. */
  protected async onStop(): Promise<void> {
    const failures: unknown[] = [];
    for (const service of this.#services.toReversed())
      await service.stop().catch((error: unknown) => failures.push(error));
    if (failures.length > 0) throw failures[0];
  }
}
