import ApusCore
import ApusDirectory
import ApusHTTP2
import ApusLoop
import ApusModel
import ApusTrust

// At an edge, what concerns one device goes over the worker's `Uplink`, and every other request to the node that
// decides as it is.

extension HTTP2Provider {
  /// Forwards a request about channels, once its credential is known to be valid. False for any other request, and
  /// everywhere but at an edge.
  func forwardsChannels(_ request: HTTP2Request) -> Bool {
    guard let links = providers.requestLinks, managesChannels || request.isBroadcast else {
      return false
    }
    do throws(Refusal) {
      try forwardChannels(request, request.content, links)
    } catch {
      refuse(request, error)
    }
    return true
  }

  private func forwardChannels(
    _ request: HTTP2Request, _ content: borrowing RequestRecord, _ links: ClientLinks
  ) throws(Refusal) {
    if managesChannels {
      _ = try ChannelAdmission.examineHead(
        content.fields, headerListTooLarge: request.headerListTooLarge)
    } else {
      _ = try BroadcastAdmission.examineHead(
        content.fields, headerListTooLarge: request.headerListTooLarge)
    }
    _ = try authenticate(request, content, context.trust.directory)
    guard !connection.isLeaving else { return session.putBack(request) }
    forward(request, links)
  }

  /// Has the node that decides answer a request.
  func forward(_ request: HTTP2Request, _ links: ClientLinks) {
    undecidedCount += 1
    if forwarded?.hasEnded != false {
      forwarded = ForwardedRequests(connection, links) { [weak self] request, response in
        self?.answerForwarded(request, response)
      }
    }
    guard let forwarded else { return answerForwarded(request, nil) }
    forwarded.send(request)
  }

  private func answerForwarded(_ request: HTTP2Request, _ response: HTTP2Response?) {
    undecidedCount -= 1
    defer { session.release(request) }
    guard !isClosed else { return }
    if let response {
      let body = response.body
      session.respond(
        streamID: request.streamID, status: response.status, fields: response.fields,
        body: body.span)
    } else {
      answer(request, Rejection(.serviceUnavailable))
    }
    connection.markDirty()
  }
}
