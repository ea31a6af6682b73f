import ApusThread
import ApusWeb

extension AdminOperation {
  /// Whether an edge answers it itself, because it is about the node that is asked, or about who serves, which the
  /// database knows while no node does. Everything else is about what the node that decides knows, or changes.
  var isAboutNode: Bool {
    switch self {
    case .page, .asset, .health, .ready, .metrics, .describe, .console, .listNodes, .drainNode,
      .resumeNode, .audit, .refusals:
      true
    default: false
    }
  }
}

extension DecidingNode {
  /// Has the node answer a request that was authorized here. Waits for the answer.
  func answer(_ request: WebRequest, _ operation: AdminOperation) throws(AdminProblem)
    -> WebResponse
  {
    let outcome = Monitor<Result<[UInt8], DecidingNodeFault>?>(nil)
    ask(ForwardedRequest(request).bytes, mayBeRepeated: !operation.changesAnything) { result in
      outcome.notify { $0 = result }
    }
    switch outcome.take() {
    case .success(let bytes):
      guard let answer = ForwardedResponse(bytes) else {
        throw AdminProblem(
          .failed,
          "the answer of the node that serves is malformed: do the nodes have different versions?")
      }
      return answer.response
    case .failure(.notReached(let reason)):
      throw AdminProblem(.unavailable, "\(reason); `apus cluster nodes` shows all nodes")
    case .failure(.lost(let reason)):
      throw AdminProblem(
        .unavailable,
        operation.changesAnything
          ? "the node that serves was lost (\(reason)), and may have made the change: look before you repeat it"
          : "the node that serves was lost (\(reason)); try again")
    }
  }
}
