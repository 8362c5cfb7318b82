// Command read-yaml reads YAML documents from stdin, each after its length in four bytes, and prints for each one a line:
// the JSON that kubectl makes of it, or `error:` and why it makes none.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	for {
		var length uint32
		if binary.Read(in, binary.BigEndian, &length) != nil {
			break
		}
		document := make([]byte, length)
		if _, err := io.ReadFull(in, document); err != nil {
			break
		}
		fmt.Fprintln(out, read(document))
	}
	out.Flush()
}

// read returns the JSON of a document, on one line.
func read(document []byte) (line string) {
	// The reader stops at some texts with a panic.
	defer func() {
		if reason := recover(); reason != nil {
			line = fmt.Sprintf("error: %v", reason)
		}
		line = strings.ReplaceAll(line, "\n", " ")
	}()
	json, err := yaml.YAMLToJSON(document)
	if err != nil {
		return fmt.Sprintf("error: %v", err)
	}
	return string(json)
}
