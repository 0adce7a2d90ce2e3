export async function open(main) { main.append("soon"); }
