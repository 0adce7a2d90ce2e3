// Tree of hierarchical tags: animal|cat is a child of animal, which need not be a tag itself.

const ORDERS = {
  suggestions: (a, b) => b.suggestions - a.suggestions || b.pictures - a.pictures,
  pictures: (a, b) => b.pictures - a.pictures,
  name: () => 0,
};

/** Build the tree of {path, level, pictures, suggestions, tag or null, kids}; counts are sums. */
export function tree(all, text, order) {
  const wanted = text.trim().toLowerCase();
  const root = { kids: new Map() };
  for (const tag of all) {
    if (wanted && !tag.name.toLowerCase().includes(wanted)) continue;
    let node = root;
    const parts = tag.name.split("|");
    parts.forEach((part, level) => {
      const path = parts.slice(0, level + 1).join("|");
      if (!node.kids.has(part)) {
        node.kids.set(part, { path, level, pictures: 0, suggestions: 0, tag: null, kids: new Map() });
      }
      node = node.kids.get(part);
      node.pictures += tag.pictures;
      node.suggestions += tag.hidden ? 0 : tag.suggestions;
    });
    node.tag = tag;
  }
  return sorted(root, ORDERS[order]);
}

function sorted(node, by) {
  return [...node.kids.values()]
    .map((kid) => ({ ...kid, kids: sorted(kid, by) }))
    .sort((a, b) => by(a, b) || a.path.localeCompare(b.path));
}

/** Return the visible rows, without the children of collapsed ones. */
export function visible(nodes, folded, all) {
  return nodes.flatMap((node) => [
    { ...node, kids: node.kids.length },
    ...(folded.has(node.path) && !all ? [] : visible(node.kids, folded, all)),
  ]);
}
