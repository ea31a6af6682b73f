package import ApusModel

/// What a worker, or a whole service, measures.
package struct Latencies: Sendable {
  /// From a request of the HTTP/2 interface to its answer of 200.
  package var acceptance = MillisecondHistogram()
  /// From the acceptance of a notification to the device's acknowledgement, where it did not wait in the store.
  package var delivery = MillisecondHistogram()

  package init(acceptance: MillisecondHistogram = .init(), delivery: MillisecondHistogram = .init())
  {
    self.acceptance = acceptance
    self.delivery = delivery
  }

  package static func + (left: Latencies, right: Latencies) -> Latencies {
    Latencies(
      acceptance: left.acceptance + right.acceptance, delivery: left.delivery + right.delivery)
  }

  package func since(_ earlier: Latencies) -> Latencies {
    Latencies(
      acceptance: acceptance.since(earlier.acceptance), delivery: delivery.since(earlier.delivery))
  }
}
