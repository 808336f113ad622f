/** No store is known by its name outside of src/stores: what differs between them is said by their descriptors. */
import { productSources, type Source } from './source.ts';
import { literalText, nameOf, ownerOf } from './syntax.ts';

const DESCRIPTOR = /^src\/stores\/([^/]+)\/descriptor\.ts$/;

/** The configuration lies below the stores, so its schema lists them again. */
const SCHEMA = 'src/config/schema.ts';

export function storeNameViolations(sources: readonly Source[]): string[] {
  const names = new Set(sources.flatMap(({ path }) => DESCRIPTOR.exec(path)?.[1] ?? []));
  return productSources(sources)
    .filter(({ path }) => path.startsWith('src/') && !path.startsWith('src/stores/') && path !== SCHEMA)
    .flatMap(({ path, nodes }) =>
      nodes.flatMap(({ node, line }) => {
        const owner = ownerOf(node);
        const listed = owner && nameOf(owner) === 'STORES' ? nameOf(node) : undefined;
        const name = literalText(node) ?? listed;
        return name !== undefined && names.has(name)
          ? [`${path}:${line}: knows the store "${name}" by its name`]
          : [];
      }),
    );
}
