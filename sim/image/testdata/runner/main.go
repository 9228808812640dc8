// Command runner stands where the runner would be and says what it finds there.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

func main() {
	dir, _ := os.Getwd()
	jit := "without"
	if os.Getenv("ACTIONS_RUNNER_INPUT_JITCONFIG") != "" {
		jit = "with"
	}
	fmt.Printf("runner: uid %d in %s %s JIT configuration, parent %d\n", os.Getuid(), dir, jit, os.Getppid())
	if err := os.WriteFile("_work/file", nil, 0o600); err != nil {
		fmt.Println("runner:", err)
	}
	for _, script := range []string{"echo $(id -un) $(ls -d /tmp)", "/usr/bin/env echo env", "cat /proc/1/environ"} {
		out, _ := exec.Command("sh", "-c", script).CombinedOutput()
		fmt.Printf("sh: %s\n", strings.TrimSpace(string(out)))
	}
	os.Exit(7)
}
