// Command read-yaml reads streams of YAML and JSON from stdin, each after its length in four bytes, and prints for each one
// a line: a list of the values that kubectl reads, or `error:` and why it reads none.
package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"
)

func main() {
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	for {
		var length uint32
		if binary.Read(in, binary.BigEndian, &length) != nil {
			break
		}
		stream := make([]byte, length)
		if _, err := io.ReadFull(in, stream); err != nil {
			break
		}
		line, err := read(stream)
		if err != nil {
			line = fmt.Sprintf("error: %v", err)
		}
		fmt.Fprintln(out, strings.ReplaceAll(line, "\n", " "))
	}
	out.Flush()
}

// read returns the values of a stream, without those that are null, which kubectl skips.
func read(stream []byte) (line string, err error) {
	// The reader stops at some texts with a panic.
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("%v", reason)
		}
	}()
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(stream), 4096)
	var values []string
	for {
		var value json.RawMessage
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return "[" + strings.Join(values, ",") + "]", nil
		}
		if err != nil {
			return "", err
		}
		if value = bytes.TrimSpace(value); len(value) > 0 && string(value) != "null" {
			values = append(values, string(value))
		}
	}
}
