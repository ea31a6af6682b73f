package import ApusDevice
import ApusModel

/// What `agent.conf` says.
package struct AgentConfiguration: Sendable, Equatable {
  /// The addresses of the service, at least one.
  package var services: [DeviceAddress]
  /// The file of the certificates that the service's certificate is checked against.
  package var authorityFile: String
  /// The device's name, shown to the operator of the service.
  package var name: String
  /// Those that the device asks for when it enrols.
  package var tags: [String] = []
  /// The file of the enrolment code; nil: the environment has it, or the operator decides.
  package var codeFile: String?
  /// Identity, record of notifications, registrations, and what is known of networks.
  package var stateDirectory: String
  package var socketPath: String
  package var keepAlive = KeepAliveBounds()
  /// Commands that may run at once.
  package var commandLimit = 8
  /// Notifications that are remembered, so that none is handled twice.
  package var rememberedCount = 4096
  package var topics: [TopicRule] = []
  package var grants: [UserGrant] = []

  /// The addresses as text, for logs and reports.
  package var serviceText: String { services.map(\.description).joined(separator: ", ") }

  package func rule(for topic: String) -> TopicRule? { topics.first { $0.topic == topic } }
}

/// The interval at which a silent connection is probed, in seconds. The agent searches between the two; equal ones fix
/// it.
package struct KeepAliveBounds: Sendable, Equatable {
  package var minimumSeconds = 60
  package var maximumSeconds = 900

  package init(minimumSeconds: Int = 60, maximumSeconds: Int = 900) {
    self.minimumSeconds = minimumSeconds
    self.maximumSeconds = maximumSeconds
  }
}

/// What happens with the notifications of a topic. All actions are performed.
package struct TopicRule: Sendable, Equatable {
  package var topic: String
  package var run: RunRule?
  package var show: ShowRule?
  package var write: WriteRule?
  /// The users whose programs get the notifications; nil: none is forwarded.
  package var forward: [String]?

  package init(topic: String) { self.topic = topic }

  /// Whether a text may be a topic; the service knows whether it is one.
  static func isTopic(_ text: String) -> Bool {
    1...Limits.topicBytes ~= text.utf8.count
      && text.utf8.allSatisfy { 0x21...0x7e ~= $0 && $0 != UInt8(ascii: ",") }
  }
}

/// A command for each notification.
package struct RunRule: Sendable, Equatable {
  /// An account of the system; nil: the agent's own, which is only allowed if the agent has no privileges.
  package var user: String?
  /// The program's absolute path and its arguments.
  package var words: [String]
  package var directory = "/"
  package var timeoutSeconds = 60
  /// Commands of the topic that may run at once.
  package var limit = 1
  package var afterKill = AfterKill.acknowledge
}

/// What happens with a notification whose command had started when the agent was killed, so that its end is unknown.
package enum AfterKill: String, Sendable, CaseIterable {
  /// The notification counts as handled: no command runs twice.
  case acknowledge
  /// The command runs again.
  case runAgain = "run-again"
}

/// How notifications of a topic appear on the desktop.
package struct ShowRule: Sendable, Equatable {
  /// The name under which they appear; nil: the topic.
  package var application: String?
  package var icon: String?
  /// The desktop file's name, for the badge; nil: no badge.
  package var desktop: String?
  /// A JSON file of texts by key, or a folder of such files by language (de.json).
  package var strings: String?
  /// A folder of sound files.
  package var sounds: String?
  /// The actions of each category, in order.
  package var categories: [String: [CategoryAction]] = [:]
  /// What runs when an action is chosen: the program's absolute path and its arguments.
  package var onAction: [String]?
}

package struct CategoryAction: Sendable, Equatable {
  package var id: String
  package var label: String
}

/// Where notifications of a topic are written, one JSON object per line.
package struct WriteRule: Sendable, Equatable {
  /// A regular file, which is made if it is missing, or a FIFO.
  package var path: String
}

/// The topics that programs of a user may register at run time.
package struct UserGrant: Sendable, Equatable {
  package var user: String
  /// Topics; one that ends with `*` stands for all that begin like it.
  package var topics: [String]

  package func covers(_ topic: String) -> Bool {
    topics.contains { pattern in
      pattern.last == "*" ? topic.hasPrefix(pattern.dropLast()) : topic == pattern
    }
  }
}
