import ApusCore

extension NodeName: ExpressibleByStringLiteral {
  public init(stringLiteral text: String) {
    guard let name = NodeName(text) else { preconditionFailure("no name of a node: \(text)") }
    self = name
  }
}

extension Partition: ExpressibleByIntegerLiteral {
  public init(integerLiteral index: Int) {
    guard let partition = Partition(index: index) else { preconditionFailure("\(index)") }
    self = partition
  }
}

extension NodeIncarnation {
  init(_ node: NodeName, _ incarnation: UInt64) {
    self.init(node: node, incarnation: Incarnation(incarnation))
  }
}

extension LeaseRow {
  init(
    _ node: NodeName, _ incarnation: UInt64, counter: UInt64 = 0, _ state: State = .held,
    isDraining: Bool = false
  ) {
    self.init(
      holder: NodeIncarnation(node, incarnation), counter: counter, state: state,
      isDraining: isDraining)
  }
}

extension PartitionMap {
  init(_ rows: [Partition: PartitionRow]) {
    self.init()
    for (partition, row) in rows { note(row, of: partition) }
  }
}
