/** Lists of the models that a token may use. */

/** Whether a list contains a model, by its name or by a beginning that ends with `*`. Without a list any model may be used. */
export const isListed = (models: readonly string[] | undefined, name: string): boolean =>
  models?.some((each) => (each.endsWith('*') ? name.startsWith(each.slice(0, -1)) : name === each)) ?? true;
