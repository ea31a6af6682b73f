import ApusLoop
import ApusModel

/// Who opens a link for a client.
protocol LinkOpener: AnyObject {
  /// Begins the handshake. False if there is none to do any more; else ``LinkOpenings/ended()`` has to follow.
  func openLink() -> Bool
}

/// The links that a worker of an edge opens for clients: so many at a time that each is done in time. After a take-over
/// all clients come back at once. Confined to its worker.
final class LinkOpenings: @unchecked Sendable {
  private let loop: EventLoop
  private var waiting: ArraySlice<Waiting> = []
  private var openingCount = 0
  private var isPumping = false

  private struct Waiting {
    weak var opener: (any LinkOpener)?
  }

  init(_ loop: EventLoop) { self.loop = loop }

  /// It is called when it is its turn.
  func add(_ opener: any LinkOpener) {
    waiting.append(Waiting(opener: opener))
    pump()
  }

  /// A handshake is over, well or not.
  func ended() {
    openingCount -= 1
    pump()
  }

  /// After this turn, because an opener may fail at once.
  private func pump() {
    guard !isPumping, openingCount < Limits.linkOpeningsAtOnce, !waiting.isEmpty else { return }
    isPumping = true
    loop.perform { [self] in
      isPumping = false
      while openingCount < Limits.linkOpeningsAtOnce, let next = waiting.popFirst() {
        if next.opener?.openLink() == true { openingCount += 1 }
      }
    }
  }
}
