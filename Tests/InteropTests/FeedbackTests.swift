import Foundation
import Testing

@Suite("The feedback service, read by clients from PyPI", .serialized)
struct FeedbackTests {
  @Test(
    "A push to a removed app's token is accepted silently, and the token is listed once",
    .timeLimit(.minutes(30)),
    arguments: [.apnsClerk, .pushjack, .tapns3(command: 1)] as [BinaryClient])
  func list(client: BinaryClient) throws { try check(client) }

  @Test(
    "A push of PyAPNs to a removed app's token is accepted silently, and the token is listed once",
    .enabled(if: Programs.python2 != nil, BinaryClient.python2IsMissing), .timeLimit(.minutes(30)))
  func pyAPNs() throws { try check(.pyAPNs(command: 1)) }

  private func check(_ client: BinaryClient) throws {
    let installation = try Installation()
    try installation.start()
    let start = Int(Date().timeIntervalSince1970)
    let phone = try installation.device("phone")
    let liveToken = try phone.connect()
    let removed = try installation.device("removed")
    let deadToken = try removed.connect()
    try removed.removeApp()
    try installation.waitUntilUnregistered(deadToken)
    // Remove entries from the pushes sent while waiting: the test is about the notification below.
    _ = try client.feedback(from: installation)

    let failures = try client.send(
      [
        .init(token: deadToken, n: 1), .init(token: liveToken, n: 1),
        .init(token: BinaryClientTests.foreignToken, n: 1),
      ], to: installation)
    #expect(failures == [.init(place: 2, status: BinaryClientTests.invalidToken)])
    #expect(try phone.shown(atLeast: 1) == [1])

    let rows = try client.feedback(from: installation)
    let end = Int(Date().timeIntervalSince1970)
    #expect(rows.map(\.token) == [deadToken])
    #expect(rows.allSatisfy { (start...end).contains($0.seconds) }, "\(start) ... \(end): \(rows)")
    // Reading clears the list; an entry from the waiting may be written up to a second later.
    var again = try client.feedback(from: installation)
    for _ in 0..<5 where !again.isEmpty {
      #expect(again.map(\.token) == [deadToken], "rows: \(rows)")
      again = try client.feedback(from: installation)
    }
    #expect(again == [], "rows: \(rows)")
  }
}
