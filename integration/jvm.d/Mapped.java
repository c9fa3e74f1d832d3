import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/**
 * Files in /dev/shm that are mapped, written, read back by another process, and removed.
 *
 *     java Mapped.java DIRECTORY MIB      writes MIB mebibytes into two files, has another JVM read them
 */
public class Mapped {
    static final int MIB = 1 << 20;

    static void fill(MappedByteBuffer buffer, long seed) {
        long state = seed;
        while (buffer.remaining() >= 8) {
            state = state * 6364136223846793005L + 1442695040888963407L;
            buffer.putLong(state);
        }
    }

    static String digest(Path path) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        try (FileChannel channel = FileChannel.open(path, StandardOpenOption.READ)) {
            ByteBuffer all = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
            digest.update(all);
        }
        return HexFormat.of().formatHex(digest.digest());
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("read")) {
            for (int n = 1; n < arguments.length; n++) {
                System.out.println(digest(Path.of(arguments[n])));
            }
            return;
        }
        Path directory = Path.of(arguments[0]);
        long bytes = Long.parseLong(arguments[1]) * MIB;
        List<Path> files = new ArrayList<>();

        // FileChannel.map makes the file as long as the mapping.
        Path created = directory.resolve("created.map");
        try (FileChannel channel = FileChannel.open(created, StandardOpenOption.CREATE_NEW, StandardOpenOption.READ,
                StandardOpenOption.WRITE)) {
            fill(channel.map(FileChannel.MapMode.READ_WRITE, 0, bytes), 1);
        }
        files.add(created);

        // RandomAccessFile is opened with O_CREAT alone, sized, and mapped.
        Path sized = directory.resolve("sized.map");
        try (RandomAccessFile file = new RandomAccessFile(sized.toFile(), "rw")) {
            file.setLength(bytes);
            fill(file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, bytes), 2);
        }
        files.add(sized);

        List<String> command = new ArrayList<>(List.of(ProcessHandle.current().info().command().orElseThrow(), "-cp",
                System.getProperty("java.class.path"), "Mapped", "read"));
        for (Path file : files) {
            System.out.println(file.getFileName() + " " + Files.size(file) + " " + digest(file));
            command.add(file.toString());
        }
        Process reader = new ProcessBuilder(command).redirectErrorStream(true).start();
        System.out.print("another process: " + new String(reader.getInputStream().readAllBytes()));
        System.out.println("ended " + reader.waitFor());
        for (Path file : files) {
            Files.delete(file);
        }
        try (var left = Files.list(directory)) {
            System.out.println("left " + left.filter(path -> path.toString().endsWith(".map")).count());
        }
    }
}
