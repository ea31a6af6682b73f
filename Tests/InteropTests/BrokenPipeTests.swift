import Foundation
import Testing

@Suite("The reader of the log has closed its end")
struct BrokenPipeTests {
  @Test("SIGPIPE does not end the service, which can still shut down properly")
  func signal() throws {
    let installation = try Installation()
    try installation.start()
    let service = try #require(installation.service)
    service.signal(SIGPIPE)
    // The same thread handles this signal after the other one. Had SIGPIPE ended the service, its status would differ.
    service.stop()
    #expect(service.status == 0)
  }
}
