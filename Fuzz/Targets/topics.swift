import ApusTrust

// The topics of a provider certificate: what is accepted has one form in DER, and is within the limits.

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
  precondition(written == bytes, "a list that has two forms")
  guard let again = try? TopicsExtension.parse(written.span) else {
    preconditionFailure("a written list is not read")
  }
  precondition(again == topics, "a list changes on its way")
  return 0
}
