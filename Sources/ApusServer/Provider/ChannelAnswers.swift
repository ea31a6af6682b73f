import ApusCore
import ApusHTTP2
import ApusLog
import ApusLoop
import ApusModel
import ApusStore
import ApusTrust

// Answers to requests about channels, broadcasts included. They carry `apns-request-id` where others carry `apns-id`.

extension HTTP2Provider {
  func answerChannel(
    _ request: HTTP2Request, status: UInt16, id: ChannelID? = nil, body: [UInt8] = []
  ) {
    respond(request, status: status, requestID(of: request), channel: id, body: body)
    session.release(request)
  }

  /// 200, with the id that devices know the broadcast by.
  func answerBroadcast(_ request: HTTP2Request, unique: NotificationID) {
    let id = requestID(of: request)
    interception?.accepted(request, id, unique: unique, of: self)
    respond(request, status: 200, id, channel: nil, unique: unique, body: [])
    session.release(request)
  }

  /// The store did not take what the request asks for.
  func failChannel(_ request: HTTP2Request, _ error: StoreError) {
    context.log.limited(.error, .groupRefused, atMilliseconds: context.loop.nowMilliseconds) {
      [.text("reason", "\(error)")]
    }
    rejectChannel(request, Rejection(.serviceUnavailable))
    session.release(request)
  }

  /// A channel that this process does not know may be known to another one that has taken over meanwhile.
  func refuseChannel(_ request: HTTP2Request, _ refusal: Refusal) {
    guard refusal.reason == .channelNotRegistered, context.isLeaseLapsed else {
      return refuse(request, refusal)
    }
    rejectChannel(request, Rejection(.serviceUnavailable))
    session.release(request)
  }

  /// The id under which the peer knows the request: its own, or one that it gets.
  private func requestID(of request: HTTP2Request) -> NotificationID? {
    if case .given = BroadcastAdmission.requestID(of: request.fields) {
      nil
    } else {
      context.ids.next()
    }
  }

  /// Rejects a request; returns its id. The caller releases it.
  @discardableResult
  func rejectChannel(_ request: HTTP2Request, _ rejection: Rejection) -> NotificationID {
    let own = requestID(of: request)
    respond(
      request, status: rejection.reason.status, own, channel: nil,
      body: RejectionBody.bytes(of: rejection))
    if case .given(let id) = BroadcastAdmission.requestID(of: request.fields) { return id }
    return own ?? context.ids.next()
  }

  /// - Parameter id: nil for the request's own, as the peer spelled it.
  private func respond(
    _ request: HTTP2Request, status: UInt16, _ id: NotificationID?, channel: ChannelID?,
    unique: NotificationID? = nil, body: [UInt8]
  ) {
    var fields = RequestFields(byteCapacity: 128)
    if let id {
      let text = IDText(id)
      _ = fields.add(.apnsRequestID, value: text.span)
    } else {
      let name: HeaderName = request.fields.contains(.apnsRequestID) ? .apnsRequestID : .apnsID
      _ = fields.add(.apnsRequestID, value: request.value(name))
    }
    if let unique {
      let text = IDText(unique)
      _ = fields.add(.apnsUniqueID, value: text.span)
    }
    if let channel {
      let text = channel.base64
      _ = fields.add(.apnsChannelID, value: text.span)
    }
    session.respond(
      streamID: request.streamID, status: status, fields: fields, body: body.span)
    connection.markDirty()
  }
}
