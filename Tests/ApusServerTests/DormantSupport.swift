import ApusCore
import ApusServer
import ApusTesting
import Glibc
import Testing

extension TestService {
  /// Waits until this many devices are dormant.
  func awaitDormant(
    _ count: Int = 1, sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    let deadline = Deadline(seconds: 60)
    while service.dormancy().count != count {
      try #require(
        deadline.remainingMilliseconds > 0, "\(service.dormancy())",
        sourceLocation: sourceLocation)
      // Polling without a pause would use up the workers' time.
      usleep(20_000)
    }
  }

}

/// A provider that sends pushes one after the other with one token.
final class QuietPusher {
  let client: RawHTTP2Client
  private let service: TestService
  private let authorization: String

  init(_ service: TestService) throws {
    self.service = service
    client = try service.provider()
    authorization = try service.authorization()
  }

  func headers(_ token: String) -> [RawHeader] {
    service.pushHeaders(to: token, authorization: authorization)
  }

  func push(_ token: String, _ alert: String = "hi") throws -> Int? {
    try client.exchange(headers(token), body: Array(#"{"aps":{"alert":"\#(alert)"}}"#.utf8)).status
  }
}
