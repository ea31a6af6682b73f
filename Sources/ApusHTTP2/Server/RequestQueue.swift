/// Requests in order, as an intrusive linked list.
struct RequestQueue {
  private var head: HTTP2Request?
  private var tail: HTTP2Request?

  init() {}

  var isEmpty: Bool { head == nil }

  mutating func push(_ request: HTTP2Request) {
    request.state.insert(.queued)
    if let tail { tail.next = request } else { head = request }
    tail = request
  }

  mutating func pushFirst(_ request: HTTP2Request) {
    request.state.insert(.queued)
    request.next = head
    if head == nil { tail = request }
    head = request
  }

  mutating func pop() -> HTTP2Request? {
    guard let request = head else { return nil }
    head = request.next
    if head == nil { tail = nil }
    request.next = nil
    request.state.remove(.queued)
    return request
  }
}
