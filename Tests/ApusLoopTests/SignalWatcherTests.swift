import Foundation
import Testing

@testable import ApusLoop

@Suite(.timeLimit(.minutes(30)))
struct SignalWatcherTests {
  @Test("A watched signal reaches every loop that watches it, and does not end the process")
  func delivery() async throws {
    try await withLoops("first", "second") { loops in
      let kept = Confined<[SignalWatcher]>([])
      let (stream, continuation) = AsyncStream.makeStream(of: String.self)
      for loop in loops {
        try await loop.on {
          let watcher = try SignalWatcher(loop: loop, signal: SIGUSR1) {
            #expect(loop.isOnLoop)
            continuation.yield(loop.name)
          }
          kept.value.append(watcher)
        }
      }
      #expect(kill(getpid(), SIGUSR1) == 0)
      #expect(Set(await stream.first(2)) == ["first", "second"])
      kept.value = []
    }
  }

  @Test("A signal that cannot be watched is an error", arguments: [SIGKILL, 0, 4000])
  func unwatchable(_ signal: Int32) {
    let loop = EventLoop(name: "refusing")
    #expect(throws: SocketError.system(.watchSignal, code: EINVAL, nil)) {
      try SignalWatcher(loop: loop, signal: signal) {}
    }
  }
}
