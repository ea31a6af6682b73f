import ApusModel

/// Numbers for the tags that devices have, so that a device's tag takes four bytes.
struct TagTable: Sendable {
  /// By number.
  private var tags: [DeviceTag?] = []
  private var uses: [UInt32] = []
  private var numbers: [DeviceTag: UInt32] = [:]
  private var free: [UInt32] = []

  /// The number of a tag, which has one more user.
  mutating func use(_ tag: DeviceTag) -> UInt32 {
    if let known = numbers[tag] {
      uses[Int(known)] += 1
      return known
    }
    let number: UInt32
    if let freed = free.popLast() {
      number = freed
      tags[Int(number)] = tag
      uses[Int(number)] = 1
    } else {
      number = UInt32(tags.count)
      tags.append(tag)
      uses.append(1)
    }
    numbers[tag] = number
    return number
  }

  /// The tag of that number has one user less.
  mutating func release(_ number: UInt32) {
    uses[Int(number)] -= 1
    guard uses[Int(number)] == 0, let tag = tags[Int(number)].take() else { return }
    numbers[tag] = nil
    free.append(number)
  }

  subscript(number: UInt32) -> DeviceTag {
    guard let tag = tags[Int(number)] else { preconditionFailure("a number without a tag") }
    return tag
  }

  /// Each tag with the number of devices that have it, sorted.
  var counts: [(tag: DeviceTag, devices: Int)] {
    numbers.map { (tag: $0.key, devices: Int(uses[Int($0.value)])) }.sorted { $0.tag < $1.tag }
  }

  /// For each number, a bit for each of `wanted` that its tag satisfies: it is that tag, or a value of that key.
  func matches(_ wanted: [DeviceTag]) -> [UInt32] {
    precondition(wanted.count <= 32, "a bit for each")
    return tags.map { tag in
      guard let tag else { return 0 }
      var bits: UInt32 = 0
      for (index, want) in wanted.enumerated() where want == tag || want.text == tag.key {
        bits |= 1 << UInt32(index)
      }
      return bits
    }
  }
}
