//! Small ONNX files, written field by field.

#![allow(dead_code)] // each test binary uses some of this

fn varint(mut n: u64, out: &mut Vec<u8>) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn number(field: u64, n: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(field << 3, &mut out);
    varint(n, &mut out);
    out
}

fn bytes(field: u64, b: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint(field << 3 | 2, &mut out);
    varint(b.len() as u64, &mut out);
    out.extend(b);
    out
}

/// A float tensor, or another type by its number in ONNX.
pub struct Port<'a>(pub &'a str, pub u64, pub &'a [u64]);

fn port(field: u64, p: &Port<'_>) -> Vec<u8> {
    let dims: Vec<u8> = p.2.iter().flat_map(|d| bytes(1, &number(1, *d))).collect();
    let tensor = [number(1, p.1), bytes(2, &dims)].concat();
    bytes(field, &[bytes(1, p.0.as_bytes()), bytes(2, &bytes(1, &tensor))].concat())
}

/// An initialiser.
pub struct Data<'a>(pub Port<'a>, pub Vec<u8>);

/// A node: op, name, inputs, outputs, graphs by the names of attributes. A `Concat` is along axis 0.
pub struct Node<'a>(
    pub &'a str,
    pub &'a str,
    pub &'a [&'a str],
    pub &'a [&'a str],
    pub Vec<(&'a str, Vec<u8>)>,
);

/// A graph.
pub fn graph(nodes: &[Node<'_>], inputs: &[Port<'_>], outputs: &[Port<'_>], data: &[Data<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for n in nodes {
        let mut node: Vec<u8> = n.2.iter().flat_map(|i| bytes(1, i.as_bytes())).collect();
        node.extend(n.3.iter().flat_map(|o| bytes(2, o.as_bytes())));
        node.extend([bytes(3, n.1.as_bytes()), bytes(4, n.0.as_bytes())].concat());
        if n.0 == "Concat" {
            node.extend(bytes(5, &[bytes(1, b"axis"), number(3, 0), number(20, 2)].concat()));
        }
        for (name, graph) in &n.4 {
            node.extend(bytes(5, &[bytes(1, name.as_bytes()), bytes(6, graph), number(20, 5)].concat()));
        }
        out.extend(bytes(1, &node));
    }
    out.extend(bytes(2, b"graph"));
    for Data(p, data) in data {
        let dims: Vec<u8> = p.2.iter().flat_map(|d| number(1, *d)).collect();
        let tensor = [dims, number(2, p.1), bytes(8, p.0.as_bytes()), bytes(9, data)].concat();
        out.extend(bytes(5, &tensor));
    }
    out.extend(inputs.iter().flat_map(|p| port(11, p)));
    out.extend(outputs.iter().flat_map(|p| port(12, p)));
    out
}

/// A model of operator set 17.
pub fn model(graph: &[u8]) -> Vec<u8> {
    [number(1, 8), bytes(7, graph), bytes(8, &number(2, 17))].concat()
}
