package import ApusModel

/// The options of `apus channel`.
package enum ChannelOptions {
  package static let topic = Option(
    "--topic", .topic, in: [Verb.channel], group: .change, scope: .flagOnly,
    help: "The bundle id of the app. create needs it; list shows all apps without it.")
  package static let environment = Option(
    "--environment",
    .choice("NAME", Environment.allCases.map { ($0.name, $0) }), in: [Verb.channel],
    group: .change, scope: .flagOnly, note: "create: production; list: both",
    help: "The environment of the channel.")
  package static let storage = Option(
    "--storage", .choice("WHAT", ChannelStorage.allCases.map { ($0.name, $0) }),
    in: [Verb.channel], group: .change, scope: .flagOnly, default: "newest",
    help:
      "With create: what the channel keeps for devices that are offline, the newest broadcast or none. It cannot be "
      + "changed later.")

  static let descriptions: [OptionDescription] = [
    topic.description, environment.description, storage.description,
  ]
}
