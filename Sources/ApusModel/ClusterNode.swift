/// A node of a cluster, as others see it.
package struct ClusterNode: Sendable, Equatable {
  package enum State: String, Sendable, CaseIterable {
    case serving
    case standby
    case stopped
  }

  package var name: String
  /// Where clients reach it; empty if that was not said.
  package var address: String
  /// The version of its program.
  package var version: String
  package var state: State
  package var isDraining: Bool
  /// Milliseconds since its last sign of life by the database's clock; nil if it never gave one. For people only.
  package var silentMilliseconds: Int64?
  /// The part of the devices whose lease it has; nil if it has none.
  package var part: Int?

  package init(
    name: String, address: String, version: String, state: State, isDraining: Bool,
    silentMilliseconds: Int64?, part: Int? = nil
  ) {
    self.name = name
    self.address = address
    self.version = version
    self.state = state
    self.isDraining = isDraining
    self.silentMilliseconds = silentMilliseconds
    self.part = part
  }

  /// Milliseconds of silence after which a node is shown as away: five signs of life.
  private static let silenceMilliseconds: Int64 = 3000

  /// Whether it gave a sign of life lately, by the database's clock.
  package var isLive: Bool {
    state != .stopped && silentMilliseconds.map { $0 < Self.silenceMilliseconds } == true
  }

  /// Whether it would take over if no node served.
  package var mayTakeOver: Bool { isLive && state == .standby && !isDraining }

  /// The state for people: "serving", "standby", "stopped", or "away" for one that should give signs of life.
  package var shownState: String { isLive || state == .stopped ? state.rawValue : Self.away }

  private static let away = "away"

  /// All that ``shownState`` may be.
  package static let shownStates = State.allCases.map(\.rawValue) + [away]
}

/// What a node learns when it gives a sign of life.
package struct ClusterOrders: Sendable, Equatable {
  package var isDraining: Bool
  /// The version of the shared files.
  package var filesVersion: Int64
  /// The nodes that stand by and may take over.
  package var standbyCount: Int
  package var progress: DatabaseProgress
  /// The names of all nodes.
  package var nodes: [String]
  /// The node that has the lease of each part of the devices; nil where none has.
  package var serving: [Serving?]

  package struct Serving: Sendable, Equatable {
    package var node: String
    /// Where it accepts links, as HOST:PORT; empty if it does not.
    package var link: String

    package init(node: String, link: String) {
      self.node = node
      self.link = link
    }
  }

  package init(
    isDraining: Bool, filesVersion: Int64, standbyCount: Int, progress: DatabaseProgress,
    nodes: [String], serving: [Serving?]
  ) {
    self.isDraining = isDraining
    self.filesVersion = filesVersion
    self.standbyCount = standbyCount
    self.progress = progress
    self.nodes = nodes
    self.serving = serving
  }
}

/// Whether a node that stands by may serve now.
package enum StandbyPermission: Sendable {
  case takeOver
  case wait
  /// It shuts down.
  case giveUp
}
