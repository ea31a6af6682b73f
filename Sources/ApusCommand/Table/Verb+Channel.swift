extension Verb {
  static let channelDescription = CommandDescription(
    name: "channel", summary: "list, create or delete channels for broadcasts",
    details: [
      """
      A broadcast on a channel goes to every device that is subscribed to it. WHAT is list, create, show ID or \
      delete ID; create prints the new channel's id. An app may have channels once \
      `apus app --change TOPIC --broadcast on` permits it. Providers manage them as well, where the service has \
      --channels-listen. Deleting a channel ends its subscriptions, for good.
      """
    ], operands: "[WHAT] [ID]", operandCount: 0...2,
    operandWords: ["list", "create", "show", "delete"],
    examples: [
      ("A channel for scores", "apus channel create --topic com.example.app"),
      ("The channels of an app", "apus channel list --topic com.example.app"),
    ])
}
