import ApusCore
import ApusHTTP2
import ApusModel

/// What a worker's providers use together.
final class ProviderContext {
  let router: Router
  let shard: ShardDriver
  let requestPool: HTTP2RequestPool
  /// For requests about what exists once in a cluster; nil where this node has it.
  let requestLinks: ClientLinks?
  var openRequests: OpenRequests
  /// Memory for a batch of frames, lent to one connection at a time.
  let binaryScratch = BinaryScratch()

  private let index: UInt16

  init(_ context: WorkerContext, _ router: Router, _ shard: ShardDriver) {
    self.router = router
    self.shard = shard
    requestPool = HTTP2RequestPool(
      keptCount: context.isAcceptor ? Limits.pooledUntrustedRequests : Limits.pooledRequests)
    requestLinks = context.shared.edges.main.map { edge in
      ClientLinks(context, edge, silenceMilliseconds: Limits.linkWaitMilliseconds)
    }
    index = UInt16(context.index)
    openRequests = OpenRequests(worker: index)
  }

  /// Releases the providers that wait for answers.
  func dismantle() {
    openRequests = OpenRequests(worker: index)
    requestLinks?.dismantle()
  }

  /// Answers the request that a verdict is about, unless it was answered before.
  func finish(_ verdict: Verdict) {
    guard let open = openRequests.close(verdict.answer) else { return }
    open.provider.finish(open, rejection: verdict.rejection)
  }

  /// Answers 503 to requests that the store has not decided within the limit. Their verdicts, when they come, are
  /// ignored.
  func answerOverdue(nowSeconds: UInt64) {
    let limit = UInt64(Limits.answerSeconds)
    guard nowSeconds > limit else { return }
    for open in openRequests.closeAll(startedBefore: (nowSeconds - limit) * 1000) {
      open.provider.finish(open, rejection: Rejection(.serviceUnavailable))
    }
  }
}
