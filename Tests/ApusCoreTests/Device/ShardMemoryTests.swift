import ApusModel
import ApusWalks
import Testing

@testable import ApusCore

@Suite("Notifications in memory are bounded for the whole service")
struct ShardMemoryTests: ShardSuite {
  let model = ShardModel(devices: 2 * count, memoryBytes: limit)

  private static let limit = 8 << 20
  private static let count = 15
  private static let payloadBytes = 4096

  private var stuck: ArraySlice<Device> { model.devices.dropLast() }

  private func serveAll() {
    for device in model.devices {
      model.connect(device)
      model.filterAll(device)
    }
    model.settle()
  }

  /// Pushes to the device until one is held back, like a provider that waits for its answers; returns how many were
  /// accepted.
  private func fill(_ device: Device) -> Int {
    for taken in 0..<Limits.courierQueueFrames {
      model.submit(device, topic, payloadBytes: Self.payloadBytes)
      while model.send(device) != nil {}
      if device.session?.heldBackCount ?? 0 > 0 { return taken }
    }
    return Limits.courierQueueFrames
  }

  @Test("Devices that acknowledge nothing leave room for one that does")
  func stuckDevices() throws {
    serveAll()
    for _ in 0..<3 { for device in stuck { _ = fill(device) } }
    #expect(model.shard.memory.usedBytes < Self.limit)
    let good = try #require(model.devices.last)
    let order = try #require(model.submit(good, topic, payloadBytes: Self.payloadBytes))
    #expect(model.send(good) == order)
    model.acknowledge(good, messageID: messageID(order))
    #expect(model.letters[order]?.isAccepted == true)
    expectLawful()
  }

  @Test("The first queues get the largest shares, and every queue gets something")
  func longestFirst() {
    serveAll()
    let lengths = stuck.map(fill)
    let first = lengths.first ?? 0
    let last = lengths.last ?? 0
    #expect(first > last && last >= 1, "\(lengths)")
    #expect(first < Limits.courierQueueFrames)
    expectLawful()
  }

  @Test("Everything is delivered in order, and its memory is freed")
  func delivery() {
    serveAll()
    var expected: [[UInt64]] = []
    for device in stuck {
      expected.append(
        (0..<80).compactMap { _ in
          model.submit(device, topic, payloadBytes: Self.payloadBytes)
        })
    }
    #expect(model.shard.memory.usedBytes > Self.limit)
    for (device, expected) in zip(stuck, expected) {
      var sent: [UInt64] = []
      while sent.count < expected.count, let order = model.send(device) {
        sent.append(order)
        model.acknowledge(device, messageID: messageID(order))
      }
      #expect(sent == expected)
    }
    model.settle()
    for device in model.devices { model.disconnect(device) }
    model.settle()
    #expect(model.shard.memory.usedBytes == 0)
    #expect(model.letters.values.allSatisfy { $0.isAccepted == true })
    expectLawful()
  }

  @Test("Held notifications of an idle device are sent early if they use too much memory")
  func held() {
    serve(.idle)
    var sent: [UInt64] = []
    var submitted: [UInt64] = []
    for _ in 0..<100 {
      submitted += [
        model.submit(device, topic, priority: .powerSaving, payloadBytes: Self.payloadBytes)
      ].compactMap(\.self)
      while let order = model.send(device) {
        sent.append(order)
        model.acknowledge(device, messageID: messageID(order))
      }
    }
    #expect(sent.count >= 2 * submitted.count / 3)
    #expect(sent == Array(submitted.prefix(sent.count)))
    #expect(model.count(.replaced) == 0)
    expectLawful()
  }

  @Test(
    "The more memory is used, the fewer undecided notifications a provider may have, but never none"
  )
  func undecided() {
    var memory = DeliveryMemory(limitBytes: 512 << 20)
    #expect(memory.undecidedCount >= Limits.binaryWindowFrames)
    memory.take(500 << 20)
    #expect(memory.undecidedCount == 4 * (12 << 20) / 64 / 4096)
    memory.take(100 << 20)
    #expect(memory.undecidedCount == Limits.undecidedGuaranteed)
    #expect(memory.queueBytes == 0)
    #expect(memory.isScarce)
  }

  @Test("A shard learns what the others use, and does not count its own use twice")
  func sharing() {
    var memory = DeliveryMemory(limitBytes: 1000)
    memory.take(300)
    #expect(memory.takeUnreported() == 300)
    memory.give(100)
    memory.learn(usedBytes: 700)
    #expect(memory.usedBytes == 600)
    #expect(memory.takeUnreported() == -100)
    memory.learn(usedBytes: 600)
    #expect(memory.freeBytes == 400)
  }
}
