import ApusCore
import ApusModel
import Testing

@Suite("Shares of a cluster's devices")
struct DeviceShareTests {
  @Test(
    "A device's part never changes: its rows are there",
    arguments: [
      // Computed from the published function with another program.
      (0, [0, 0, 0]), (1, [0, 1, 21]), (2, [1, 2, 54]), (3, [0, 0, 7]), (4, [1, 2, 45]),
      (0xabcd, [1, 2, 62]), (0xabce, [0, 0, 3]), (.max, [1, 2, 45]),
      (0x0123_4567_89ab_cdef, [1, 2, 44]),
    ] as [(UInt64, [Int])])
  func parts(_ device: UInt64, _ parts: [Int]) throws {
    for (count, part) in zip([2, 3, 64], parts) {
      let share = try #require(DeviceShare(part: nil, of: count))
      #expect(share.part(of: DeviceID(device)) == part, "of \(count)")
    }
    #expect(DeviceShare.all.part(of: DeviceID(device)) == 0)
  }

  @Test("Each device is in one part, and parts are of one size")
  func spread() throws {
    for count in [2, 3, 7, 64] {
      let shares = try (0..<count).map { try #require(DeviceShare(part: $0, of: count)) }
      var sizes = [Int](repeating: 0, count: count)
      for number in 0..<UInt64(64_000) {
        let device = DeviceID(number)
        #expect(shares.count { $0.contains(device) } == 1)
        sizes[shares[0].part(of: device)] += 1
      }
      let mean = 64_000 / count
      #expect(sizes.allSatisfy { abs($0 - mean) < mean / 5 }, "\(sizes)")
    }
  }

  @Test("Only numbers that a cluster can have")
  func bounds() {
    #expect(DeviceShare(part: 2, of: 2) == nil && DeviceShare(part: -1, of: 2) == nil)
    #expect(DeviceShare(part: 0, of: 0) == nil && DeviceShare(part: 0, of: 65) == nil)
    #expect(DeviceShare(part: 0, of: 1) == .all)
    #expect(DeviceShare(part: nil, of: 1) == DeviceShare.none)
    #expect(DeviceShare.all.isMain && !DeviceShare.all.isEmpty && DeviceShare.none.isEmpty)
    #expect(DeviceShare(part: 0, of: 3)?.others == 1..<3)
    #expect(DeviceShare(part: 1, of: 3)?.others.isEmpty == true)
  }
}
