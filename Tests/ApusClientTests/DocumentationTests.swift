import ApusDevice
import ApusDirectory
import ApusModel
import ApusServer
import Foundation
import Testing

@testable import ApusClient

@Suite("The documentation is correct", .timeLimit(.minutes(30)))
struct DocumentationTests {
  private static let root = URL(filePath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent().deletingLastPathComponent()

  private func page(_ name: String) throws -> String {
    try String(
      contentsOf: Self.root.appending(path: "Sources/ApusClient/ApusClient.docc/\(name).md"),
      encoding: .utf8)
  }

  /// The Swift code blocks of a page.
  private func code(in page: String) -> [String] {
    page.components(separatedBy: "```swift\n").dropFirst().compactMap {
      $0.components(separatedBy: "```").first
    }
  }

  @Test(
    "The code of the pages is the code that is compiled here",
    arguments: [
      ("SendYourFirstPush", "Tutorial", 8), ("BroadcastOnChannels", "ChannelTutorial", 5),
    ])
  func tutorials(page name: String, file: String, count: Int) throws {
    let source = try String(
      contentsOf: Self.root.appending(path: "Tests/ApusClientTests/\(file).swift"), encoding: .utf8
    )
    let pieces = code(in: try page(name))
    #expect(pieces.count == count)
    for piece in pieces {
      #expect(source.contains("\n\(piece)"), "not in \(file).swift: \(piece)")
    }
  }

  @Test("The code about channels does what the page says")
  func channelTutorialRuns() async throws {
    let channelText = "dHN0LXNyY2gtY2hubA=="
    func answer(
      _ status: String, _ fields: [(String, String)] = [], body: String = ""
    ) -> ScriptedService.Action {
      .frames { Frames.answer($0, [(":status", status)] + fields, body: body) }
    }
    let service = try ScriptedService([
      [answer("201", [("apns-channel-id", channelText)])], [.cut], [],
      [answer("204"), answer("200", body: #"{"channels":["YQ=="]}"#)],
    ])
    var configuration = try service.configuration()
    configuration.channelsEndpoint = configuration.endpoint
    let channel = try await openChannel(configuration)
    #expect(channel.text == channelText)
    let error = await #expect(throws: ChannelError.self) { try await openChannel(configuration) }
    #expect(error.map(channelThatMayExist) == true)

    let start = try kickOff(on: channel, token: "0a0b", nowSeconds: 1000)
    #expect(start.lint() == [])
    #expect(
      String(decoding: start.payload, as: UTF8.self)
        == #"{"aps":{"timestamp":1000,"event":"start","attributes-type":"MatchAttributes","#
        + #""attributes":{"teams":["Ajax","Celtic"]},"input-push-channel":"\#(channelText)","#
        + #""content-state":{"guests":0,"home":0},"alert":{"title":"Kick-off"}}}"#)
    let client = try APNSClient(configuration)
    let score = Score(home: 1, guests: 0)
    #expect(try await announce([channel: score], nowSeconds: 1000, with: client) == 1)
    await stop(client)
    let broadcast = try goal(score, on: channel, nowSeconds: 1000)
    #expect(broadcast.lint() == [])
    #expect(broadcast.expirationSeconds == 1600)
    #expect(try await closeChannel(channel, configuration).map(\.text) == ["YQ=="])
  }

  @Test("The tutorial's code does what the page says")
  func tutorialRuns() async throws {
    let live = try LiveService()
    let apple = try makeClient(key: try live.read(live.provisioned.keyFile))
    await stop(apple)
    let device = try live.device()
    try device.start()
    let token = try await device.token(for: LiveService.topic)
    let client = try APNSClient(try live.configuration(try live.tokenCredential()))
    let order = Order(number: 7, items: ["tea"])
    let request = keepingTheNewest(
      try orderIsReady(order, token: token.hex), nowSeconds: LiveService.nowSeconds)
    #expect(complaints(about: request) == [])
    #expect(try await send(request, with: client) == .done)
    var notifications = device.notifications.makeAsyncIterator()
    let notification = try #require(await notifications.next())
    #expect(
      String(decoding: notification.payload, as: UTF8.self)
        == #"{"aps":{"alert":{"title":"Order 7","body":"Ready at the counter."},"#
        + #""sound":"default","thread-id":"orders","interruption-level":"time-sensitive"},"#
        + #""order":{"items":["tea"],"number":7}}"#)

    let nobody = try live.tokenOfNobody().hex
    #expect(try await send(try orderIsReady(order, token: nobody), with: client) == .forgetToken)
    let zeros = String(repeating: "0", count: 64)
    guard case .lookAt = try await send(try orderIsReady(order, token: zeros), with: client) else {
      Issue.record("a token that is none was accepted")
      return
    }
    let dead = await deadTokens(
      among: [token.hex, nobody, zeros], sending: AlertPayload(body: "Closed"), with: client)
    #expect(dead == [nobody])
    let activity = try progress(Delivery(stopsLeft: 2), token: token.hex, nowSeconds: 1000)
    #expect(complaints(about: activity) == [])
    #expect(
      String(decoding: activity.payload, as: UTF8.self)
        == #"{"aps":{"timestamp":1000,"event":"update","content-state":{"stopsLeft":2},"#
        + #""stale-date":1600}}"#)
    await stop(client)
    await device.stop()
  }

  @Test("The page lists every lint rule with its severity and source")
  func rules() throws {
    let rows = try page("RulesOfTheLint").split(separator: "\n").filter { $0.hasPrefix("| `") }
    #expect(rows.count == LintRule.allCases.count)
    for rule in LintRule.allCases {
      let isThere = rows.contains {
        $0.hasPrefix("| `\(rule.rawValue)` | \(rule.severity.rawValue) | ")
          && $0.hasSuffix(" | \(rule.source) |")
      }
      #expect(isThere, "\(rule.rawValue)")
    }
  }
}
