// The data of the page: JSON values and columns of numbers, deflated and in base64 (`pack.py`).
const ARRAYS = {
  u1: Uint8Array, i1: Int8Array, u2: Uint16Array, i2: Int16Array, u4: Uint32Array, i4: Int32Array,
  f4: Float32Array,
};

async function unpack(text) {
  const letters = atob(text.trim());
  const deflated = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) deflated[i] = letters.charCodeAt(i);
  const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = await new Response(stream).arrayBuffer();
  let end = 4 + new DataView(bytes).getUint32(0, true);
  const about = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, end - 4)));
  const columns = {};
  for (const [name, kind, length] of about.columns) {
    const start = end;
    end += length * ARRAYS[kind].BYTES_PER_ELEMENT;
    columns[name] = new ARRAYS[kind](bytes.slice(start, end)); // a copy, which is aligned
  }
  return { about, columns };
}
