package import ApusModel

/// One of the 1,024 parts of all devices: everything about one device is decided by the owner of its partition.
package struct Partition: Sendable, Hashable {
  /// From 0 to 1,023.
  package let index: Int

  /// Nil for a number that no partition has.
  package init?(index: Int) {
    guard (0..<Limits.partitions).contains(index) else { return nil }
    self.index = index
  }

  /// The device's partition: the top ten bits of its id times the golden ratio (Knuth, The Art of Computer Programming,
  /// volume 3, section 6.4). Consecutive ids spread more evenly than by chance.
  ///
  /// Keys in the store contain it, so it never changes.
  package init(of device: DeviceID) {
    index = Int(truncatingIfNeeded: (device.rawValue &* Self.factor) &>> 54)
  }

  /// 2^64 divided by the golden ratio.
  static let factor: UInt64 = 0x9e37_79b9_7f4a_7c15
}

extension Partition: Comparable {
  package static func < (left: Partition, right: Partition) -> Bool { left.index < right.index }
}

/// Counts the owners of a partition: each change of its owner takes the next one.
package struct Epoch: Sendable, Hashable {
  package let rawValue: UInt64

  package init(_ rawValue: UInt64) { self.rawValue = rawValue }

  /// Before the first owner.
  package static let none = Epoch(0)

  package var next: Epoch { Epoch(rawValue + 1) }
}

extension Epoch: Comparable {
  package static func < (left: Epoch, right: Epoch) -> Bool { left.rawValue < right.rawValue }
}

/// A partition's row in the database. It changes only with ownership.
package struct PartitionRow: Sendable, Hashable {
  /// Nil before the first owner.
  package var owner: NodeIncarnation?
  package var epoch: Epoch

  package init(owner: NodeIncarnation? = nil, epoch: Epoch = .none) {
    self.owner = owner
    self.epoch = epoch
  }
}
