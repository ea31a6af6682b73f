// The three containers that `Encodable` writes to. One generic method implements the requirements for all number types
// of the standard library.

/// A value while it is being encoded: a type may take a container, pass it on, and fill it later.
final class EncodingNode {
  private enum Content {
    case nothing
    case value(EncodedValue)
    case array([EncodingNode])
    case object([String: EncodingNode])
  }

  private var content = Content.nothing

  /// What was written so far. A type that writes nothing becomes an empty object, as with Foundation's encoder.
  var value: EncodedValue {
    switch content {
    case .nothing: .object([:])
    case .value(let value): value
    case .array(let nodes): .array(nodes.map(\.value))
    case .object(let nodes): .object(nodes.mapValues(\.value))
    }
  }

  var count: Int { if case .array(let nodes) = content { nodes.count } else { 0 } }

  func set(_ value: EncodedValue) { content = .value(value) }

  func becomeObject() { if case .object = content {} else { content = .object([:]) } }

  func becomeArray() { if case .array = content {} else { content = .array([]) } }

  func child(_ key: String) -> EncodingNode {
    let child = EncodingNode()
    guard case .object(var nodes) = content else { preconditionFailure("no object") }
    // Avoids a copy for each member.
    content = .nothing
    nodes[key] = child
    content = .object(nodes)
    return child
  }

  func appendChild() -> EncodingNode {
    let child = EncodingNode()
    guard case .array(var nodes) = content else { preconditionFailure("no array") }
    content = .nothing
    nodes.append(child)
    content = .array(nodes)
    return child
  }
}

struct NodeEncoder: Encoder {
  let node: EncodingNode
  let codingPath: [any CodingKey]
  var userInfo: [CodingUserInfoKey: Any] { [:] }

  func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
    node.becomeObject()
    return KeyedEncodingContainer(KeyedNode<Key>(node: node, codingPath: codingPath))
  }

  func unkeyedContainer() -> any UnkeyedEncodingContainer {
    node.becomeArray()
    return UnkeyedNode(node: node, codingPath: codingPath)
  }

  func singleValueContainer() -> any SingleValueEncodingContainer {
    SingleNode(node: node, codingPath: codingPath)
  }
}

private struct KeyedNode<Key: CodingKey>: KeyedEncodingContainerProtocol {
  let node: EncodingNode
  let codingPath: [any CodingKey]

  private func encoder(for key: any CodingKey) -> NodeEncoder {
    NodeEncoder(node: node.child(key.stringValue), codingPath: codingPath + [key])
  }

  mutating func encodeNil(forKey key: Key) { node.child(key.stringValue).set(.null) }

  mutating func encode(_ value: some Encodable, forKey key: Key) throws {
    node.child(key.stringValue).set(try EncodedValue.encode(value, at: codingPath + [key]))
  }

  mutating func nestedContainer<Nested: CodingKey>(
    keyedBy type: Nested.Type, forKey key: Key
  ) -> KeyedEncodingContainer<Nested> { encoder(for: key).container(keyedBy: type) }

  mutating func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
    encoder(for: key).unkeyedContainer()
  }

  mutating func superEncoder() -> any Encoder { encoder(for: PlaceKey("super")) }
  mutating func superEncoder(forKey key: Key) -> any Encoder { encoder(for: key) }
}

private struct UnkeyedNode: UnkeyedEncodingContainer {
  let node: EncodingNode
  let codingPath: [any CodingKey]
  var count: Int { node.count }

  private func nextEncoder() -> NodeEncoder {
    let key = PlaceKey(count)
    return NodeEncoder(node: node.appendChild(), codingPath: codingPath + [key])
  }

  mutating func encodeNil() { node.appendChild().set(.null) }

  mutating func encode(_ value: some Encodable) throws {
    let path = codingPath + [PlaceKey(count)]
    node.appendChild().set(try EncodedValue.encode(value, at: path))
  }

  mutating func nestedContainer<Nested: CodingKey>(
    keyedBy type: Nested.Type
  ) -> KeyedEncodingContainer<Nested> { nextEncoder().container(keyedBy: type) }

  mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer {
    nextEncoder().unkeyedContainer()
  }

  mutating func superEncoder() -> any Encoder { nextEncoder() }
}

private struct SingleNode: SingleValueEncodingContainer {
  let node: EncodingNode
  let codingPath: [any CodingKey]

  mutating func encodeNil() { node.set(.null) }

  mutating func encode(_ value: some Encodable) throws {
    node.set(try EncodedValue.encode(value, at: codingPath))
  }
}

/// The coding key of an array element, or of what a superclass encodes.
private struct PlaceKey: CodingKey {
  let stringValue: String
  let intValue: Int?

  init(_ index: Int) { (stringValue, intValue) = ("\(index)", index) }
  init(_ name: String) { (stringValue, intValue) = (name, nil) }
  init?(intValue: Int) { self.init(intValue) }
  init?(stringValue: String) { self.init(stringValue) }
}
