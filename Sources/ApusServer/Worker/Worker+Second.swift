import ApusCore
import ApusModel
import ApusStore

// What a worker does each second.

extension Worker {
  /// "Always answer within a deadline": what the store has not decided by then is answered 503, and its verdict, when
  /// it comes, finds nobody waiting.
  func answerOverdue() {
    let limit = UInt64(Limits.answerSeconds)
    guard nowSeconds > limit else { return }
    for open in openRequests.closeAll(startedBefore: (nowSeconds - limit) * 1000) {
      open.provider.finish(open, rejection: Rejection(.serviceUnavailable))
    }
  }

  /// Passes on what the store took for expired, to the devices' owners.
  func handOutExpired() {
    var places: [MailboxKey] = []
    store.takeExpired(
      nowSeconds: wallSeconds, limit: Limits.expiredPerSecond, into: &places)
    for place in places { send(.expired(place), to: ownerIndex(of: place.device)) }
  }
}
