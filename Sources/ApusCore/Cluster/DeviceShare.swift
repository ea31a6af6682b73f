package import ApusModel

/// Which of a cluster's devices a service decides about: those of one part, or none at an edge.
///
/// A cluster's devices are divided into equal parts when it is made. Everything about one device is decided where its
/// part is. A service of its own has the only part.
package struct DeviceShare: Sendable, Hashable {
  /// From 1 to `Limits.deviceParts`.
  package let partCount: Int
  /// From 0 to `partCount` - 1; nil: none.
  package let part: Int?

  /// Nil for numbers that no cluster has.
  package init?(part: Int?, of partCount: Int) {
    guard (1...Limits.deviceParts).contains(partCount),
      part.map((0..<partCount).contains) ?? true
    else { return nil }
    (self.part, self.partCount) = (part, partCount)
  }

  private init(_ part: Int?) { (self.part, partCount) = (part, 1) }

  /// All devices: there is one part.
  package static let all = DeviceShare(0)
  /// None of the devices, which are all decided about in one place.
  package static let none = DeviceShare(nil)

  /// Whether this is an edge, which only accepts clients.
  package var isEmpty: Bool { part == nil }

  /// Whether the service has what exists once in a cluster, such as channels and jobs: that of part 0.
  package var isMain: Bool { part == 0 }

  /// The parts that nodes decide about which have copies of this one's channels; none but for that of part 0.
  package var others: Range<Int> { isMain ? 1..<partCount : 0..<0 }

  /// The part of a device. It is where the device's rows are, so it never changes.
  package func part(of device: DeviceID) -> Int {
    guard partCount > 1 else { return 0 }
    // The result says nothing about which worker of the node owns the device.
    return Int(device.rawValue.mixed.multipliedFullWidth(by: UInt64(partCount)).high)
  }

  package func contains(_ device: DeviceID) -> Bool { part(of: device) == part }
}

extension UInt64 {
  /// The last step of SplitMix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014).
  var mixed: UInt64 {
    var mixed = (self ^ self &>> 30) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ mixed &>> 27) &* 0x94d0_49bb_1331_11eb
    return mixed ^ mixed &>> 31
  }
}
