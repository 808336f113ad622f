/** The public exports of `orchd/consumer`. */
export { ConsumerError } from './api.ts';
export { Consumer, type ConsumerOptions, type Handler, type JobContext } from './consumer.ts';
