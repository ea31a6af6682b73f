// Reads how attempts ended, a line for each series, and prints for each end the next address, with `!` if it is tried
// at once.
//
//   COUNT [answered|hinted|unhinted|failed|lost|silent|restart]...
//
// The hint is address `h`.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rotation.h"

int main(void) {
  char line[256];
  while (fgets(line, sizeof line, stdin) != NULL) {
    struct apus_rotation rotation;
    apus_rotation_init(&rotation, strtoul(strtok(line, " \n"), NULL, 10));
    for (char *word; (word = strtok(NULL, " \n")) != NULL;) {
      bool is_at_once = false;
      if (strcmp(word, "answered") == 0) {
        apus_rotation_answered(&rotation);
        continue;
      }
      if (strstr(word, "hinted") != NULL) {
        apus_rotation_hinted(&rotation, word[0] == 'h');
        continue;
      }
      if (strcmp(word, "restart") == 0) {
        apus_rotation_restart(&rotation);
      } else if (strcmp(word, "silent") == 0) {
        is_at_once = apus_rotation_fell_silent(&rotation);
      } else {
        is_at_once = apus_rotation_failed(&rotation, strcmp(word, "lost") == 0);
      }
      if (rotation.is_at_hint) {
        printf("h%s ", is_at_once ? "!" : "");
      } else {
        printf("%zu%s ", rotation.current, is_at_once ? "!" : "");
      }
    }
    printf("\n");
  }
  return 0;
}
