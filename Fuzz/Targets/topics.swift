import ApusTrust

// The topics of a provider certificate: an accepted list has a unique DER form and is within the limits.

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzz(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  let bytes = input(start, count)
  guard let topics = try? TopicsExtension.parse(bytes.span) else { return 0 }
  precondition(topics.entries.count <= TopicsExtension.topicLimit, "too many topics")
  for entry in topics.entries {
    precondition((1...TopicsExtension.labelLimit).contains(entry.labels.count), "labels")
    precondition(!entry.topic.isEmpty, "an empty topic")
    precondition(
      entry.labels.allSatisfy { (1...TopicsExtension.labelBytes).contains($0.utf8.count) },
      "the length of a label")
  }
  let written = topics.der
  precondition(written == bytes, "a list has two forms")
  guard let again = try? TopicsExtension.parse(written.span) else {
    preconditionFailure("a written list cannot be read")
  }
  precondition(again == topics, "a list changes in a round trip")
  return 0
}
