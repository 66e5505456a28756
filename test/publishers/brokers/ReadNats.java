/** Reads the first message of a stream with the client for Java, and prints what there is of it: names, a tab, values. */
import io.nats.client.Connection;
import io.nats.client.Nats;
import io.nats.client.api.MessageInfo;
import java.util.Base64;

public class ReadNats {
  public static void main(String[] args) throws Exception {
    try (Connection connection = Nats.connect(args[0])) {
      MessageInfo message = connection.jetStreamManagement().getMessage(args[1], 1);
      System.out.println("subject\t" + message.getSubject());
      System.out.println("data\t" + Base64.getEncoder().encodeToString(message.getData()));
      for (String name : message.getHeaders().keySet())
        System.out.println("header " + name + "\t" + String.join(",", message.getHeaders().get(name)));
    }
  }
}
