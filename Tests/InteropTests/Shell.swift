import Foundation
import Testing

/// Runs a shell's command in an installation's data directory, with `apus` as `$0`; returns the exit code and what was
/// printed on both outputs.
func shell(
  _ command: String, in installation: Installation
) throws -> (code: Int32, text: String) {
  let text = try Programs.run(
    URL(filePath: "/bin/sh"),
    [
      "-c", #"cd "$1"; apus="$0"; timeout 60 sh -c "$2" "$apus" 2>&1; printf "\ncode %d\n" $?"#,
      installation.apus.path, installation.directory.path, command,
    ])
  let lines = text.split(separator: "\n")
  let code = lines.last.flatMap { Int32($0.dropFirst("code ".count)) }
  return (try #require(code), lines.dropLast().joined(separator: "\n"))
}
