import Foundation
import Testing

/// A release is resolved by its version and has only what would be committed, unlike a package in a folder. What the
/// libraries may contain is checked in Tests/TidyTests: the package manager no longer refuses unsafe flags.
@Suite("The libraries in another package", .timeLimit(.minutes(30)))
struct LibraryTests {
  private static let environment = URL(filePath: "/usr/bin/env")
  private static let shell = URL(filePath: "/bin/sh")

  /// The version of this checkout.
  private func version() throws -> String {
    let source = try text("Sources/ApusCommand/Table/Version.swift")
    return String(try #require(source.firstMatch(of: #/version = "([0-9.]+)"/#)).1)
  }

  private func text(_ path: String) throws -> String {
    try String(contentsOf: Programs.root.appending(path: path), encoding: .utf8)
  }

  /// The only Swift code block of a page that contains `word`.
  private func code(_ page: String, with word: String) throws -> String {
    let blocks = try text("Documentation/\(page).md").components(separatedBy: "```swift\n")
      .dropFirst().compactMap { $0.components(separatedBy: "```").first }
      .filter { $0.contains(word) }
    try #require(blocks.count == 1, "blocks with \(word) in \(page).md")
    return blocks[0]
  }

  /// A repository with one commit, which has the version's tag and the files of this checkout as they are now.
  ///
  /// - Returns: Its address.
  private func release(_ version: String, in scratch: Scratch) throws -> String {
    let script = """
      set -e
      export GIT_DIR="$1/apus.git" GIT_INDEX_FILE="$1/apus.git/index"
      git init --quiet "$GIT_DIR" --bare
      cd "$0"
      export GIT_WORK_TREE=.
      git add --all
      commit=$(git -c user.name=Test -c user.email=test@localhost \\
        commit-tree -m "Release $2" "$(git write-tree)")
      git update-ref HEAD "$commit"
      git update-ref "refs/tags/$2" "$commit"
      """
    try Programs.run(
      Self.shell, ["-c", script, Programs.root.path, scratch.path, version])
    return "file://\(scratch.path)/apus.git"
  }

  /// Replaces what occurs exactly once.
  private func replace(_ old: String, in text: inout String, by new: String) throws {
    try #require(text.ranges(of: old).count == 1, "once in the documented code: \(old)")
    text.replace(old, with: new)
  }

  /// Builds the programs of the two pages in one package.
  ///
  /// - Returns: The folder with the programs.
  private func build(_ scratch: Scratch, sender: String, receiver: String) throws -> URL {
    let version = try version()
    var manifest = try code("providers", with: "import PackageDescription")
    #expect(manifest.contains("from: \"\(version)\""))
    try replace(
      "https://git.example.com/apus.git", in: &manifest, by: try release(version, in: scratch))
    try replace(
      "targets: [", in: &manifest,
      by: """
        targets: [
            .executableTarget(
              name: "receiver", dependencies: [.product(name: "ApusDevice", package: "apus")]),
        """)
    _ = try scratch.write(manifest, "package/Package.swift")
    _ = try scratch.write(sender, "package/Sources/sender/main.swift")
    _ = try scratch.write(receiver, "package/Sources/receiver/main.swift")
    // Whole modules, each compiled by one process, without optimisation, debug information and index: the fastest way
    // to build it all once.
    let options = [
      "--package-path", "\(scratch.path)/package", "--cache-path", "\(scratch.path)/cache",
      "--configuration", "release", "-Xswiftc", "-Onone", "-Xswiftc",
      "-no-emit-module-separately-wmo", "-debug-info-format", "none", "--disable-index-store",
    ]
    let swift = ["-u", "APUS_PURE", "swift", "build"] + options
    try Programs.run(Self.environment, swift)
    let folder = try Programs.run(Self.environment, swift + ["--show-bin-path"])
    return URL(filePath: folder.trimmingCharacters(in: .whitespacesAndNewlines))
  }

  @Test("The documented programs build against the release, push, receive, and print the outcome")
  func programs() throws {
    let scratch = try Scratch()
    defer { scratch.remove() }
    let installation = try Installation()
    try installation.start()
    let issued = try Programs.json(
      Programs.run(
        installation.apus,
        ["device", "add", "--data", installation.directory.path, "--name", "phone", "--json"]))

    var sender = try code("providers", with: "print(try await client.send(push))")
    sender.replace("apus-data/authority/service.crt", with: installation.authority)
    sender.replace("port: 2197", with: "port: \(installation.providerPort)")
    sender.replace("apus-data/keys/ABC123DEFG.p8", with: installation.text("key_file"))
    sender.replace("ABC123DEFG", with: installation.text("key_id"))
    sender.replace("TEAM123456", with: installation.text("team"))
    var receiver = try code("devices", with: "for await notification")
    receiver.replace(
      #"host: "push.example.com""#, with: "host: \"localhost\", port: \(installation.courierPort)")
    receiver.replace("service.crt", with: installation.authority)
    receiver.replace("phone.crt", with: try #require(issued["certificate_file"] as? String))
    receiver.replace("phone.key", with: try #require(issued["key_file"] as? String))

    let folder = try build(scratch, sender: sender, receiver: receiver)
    let script = """
      set -e
      cd "$1"
      mkfifo pipe
      timeout 60 stdbuf -oL "$0/receiver" > pipe &
      exec 3< pipe
      read -r token <&3
      "$0/sender" "$token"
      read -r shown <&3
      kill $!
      echo "$shown"
      """
    let printed = try Programs.run(Self.shell, ["-c", script, folder.path, scratch.path])
    #expect(
      try #/accepted, apns-id [0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}\nHello\n/#
        .wholeMatch(in: printed) != nil, "\(printed)")
  }
}
