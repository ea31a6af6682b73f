extension Verb {
  static let relayDescription = CommandDescription(
    name: "relay", summary: "show and command what waits for upstreams",
    details: [
      """
      Notifications from the binary interface for device tokens of another service are kept until the app's upstream \
      has answered. WHAT is status, pause, resume, flush or confirm; all but status need the app's bundle id. pause \
      sends nothing more until resume. flush tries at once what waits for a later attempt. confirm says that the \
      tokens which upstream takes for bad really are bad: they go to the feedback list.
      """
    ], operands: "[WHAT] [TOPIC]", operandCount: 0...2,
    operandWords: ["status", "pause", "resume", "flush", "confirm"],
    examples: [
      ("What waits, and why", "apus relay status"),
      ("Try again now", "apus relay flush com.example.app"),
    ])
}
