import ApusCommand
import ApusWire
import Testing

@testable import apus_bench

@Suite("Settings of a fleet")
struct FleetSettingsTests {
  private func invocation(_ arguments: [String]) throws -> Invocation {
    let parser = CommandLineParser(program: .bench, environment: [:]) { _ in nil }
    guard case .run(let invocation) = try parser.parse(["fleet"] + arguments) else {
      throw Unparsed()
    }
    return invocation
  }
  private struct Unparsed: Error {}

  private func settings(_ arguments: [String]) throws -> FleetSettings {
    try FleetSettings(invocation(arguments))
  }

  @Test("The parts cover the fleet: devices in order, addresses distributed, separate token files")
  func parts() throws {
    let sources = (1...5).flatMap { ["--source", "127.0.0.\($0)"] }
    let whole = try settings(
      ["--devices", "10", "--first", "100", "--processes", "3", "--print-tokens", "t"] + sources)
    let parts = (0..<3).map(whole.part)
    #expect(parts.map(\.numbers) == [100..<103, 103..<106, 106..<110])
    #expect(
      parts.map(\.sources) == [
        ["127.0.0.1", "127.0.0.4"], ["127.0.0.2", "127.0.0.5"], ["127.0.0.3"],
      ])
    #expect(parts.map(\.tokensPath) == ["t.0", "t.1", "t.2"])
    #expect(parts.allSatisfy { $0.processCount == 1 })
  }

  @Test("With fewer addresses than processes, each process has one in turn")
  func fewAddresses() throws {
    let whole = try settings(
      ["--devices", "9", "--processes", "3", "--source", "127.0.0.1", "--source", "127.0.0.2"])
    #expect(
      (0..<3).map { whole.part($0).sources } == [["127.0.0.1"], ["127.0.0.2"], ["127.0.0.1"]])
  }

  @Test("A process starts with the settings of its part")
  func arguments() throws {
    let whole = try settings([
      "--devices", "7", "--first", "3", "--data", "d", "--connect", "127.0.0.1:1234", "--topic",
      "com.example.b", "--source", "127.0.0.9", "--print-tokens", "t",
      "--exit-after-registration", "--handshakes", "5", "--reconnect-milliseconds", "77",
      "--keep-alive-seconds", "11", "--resume", "off", "--misbehave", "half-open", "--status", "s",
    ])
    let again = try settings(Array(whole.arguments.dropFirst()))
    #expect("\(again)" == "\(whole)")
    let part = whole.part(0)
    #expect("\(try settings(Array(part.arguments.dropFirst())))" == "\(part)")
  }

  @Test("Each device subscribes to all channels, on the topic for Live Activities")
  func channels() throws {
    let whole = try settings([
      "--devices", "4", "--processes", "2", "--channel", "AQI=", "--channel", "Aw==",
    ])
    let topic = Array("a.b".utf8)
    #expect(whole.hasActivities)
    #expect(
      whole.subscriptions(topic: topic)
        == CourierSubscriptions(topics: [
          CourierChannelTopic(
            topic: topic,
            subscribed: [CourierChannelMark(id: [1, 2]), CourierChannelMark(id: [3])])
        ]))
    let part = try settings(Array(whole.part(1).arguments.dropFirst()))
    #expect(part.channels == ["AQI=", "Aw=="] && part.hasActivities)
    let without = try settings(["--devices", "4", "--live-activities"])
    #expect(without.hasActivities && without.subscriptions(topic: topic) == nil)
    #expect(throws: CommandFailure.self) {
      try settings(["--devices", "4", "--channel", "AQI=", "--misbehave", "half-open"])
    }
  }

  @Test("Too many devices for a process or an address are rejected with a remedy")
  func tooMany() throws {
    let most = descriptorLimit()
    let processes = #expect(throws: CommandFailure.self) {
      try settings(["--devices", "\(min(most, 900_000) + 1)"])
    }
    if most < 900_000 {
      #expect(processes?.remedy?.contains("--processes") == true)
    }
    let sources = #expect(throws: CommandFailure.self) {
      try settings(["--devices", "60000", "--processes", "100"])
    }
    #expect(sources?.remedy?.contains("3 of --source") == true)
  }

  @Test("A host name as an address is rejected")
  func source() throws {
    #expect(throws: CommandFailure.self) {
      try settings(["--devices", "1", "--source", "localhost"])
    }
    _ = try settings(["--devices", "1", "--source", "::1"])
  }
}
